"""Files of data sets that installed Python packages have, which are read only as they were checked."""

import bz2
import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from fairshares.harness.errors import DataSetError
from fairshares.harness.system.files import read_bounded

_MOST_BYTES = 1 << 24  # of a file, packed or not


@dataclass(frozen=True)
class PackagedFile:
    """A file, packed by bzip2, that comes with a Python package.

    Attributes:
        data_set: The data set's name, for messages.
        package: The package's name.
        version: The package's version whose file was checked.
        path: Where the file is in the package's directory.
        sha256: The SHA-256 of its content, unpacked, in hexadecimal digits.
    """

    data_set: str
    package: str
    version: str
    path: Path
    sha256: str

    def read(self, file: Path | None = None) -> bytes:
        """Return the content, unpacked; of `file`, if one is given in place of the package's.

        Raises:
            DataSetError: The package is absent, or the file is unreadable or another one.
        """
        place = file or self._find()
        try:
            whole = bz2.BZ2Decompressor()
            raw = whole.decompress(read_bounded(place, _MOST_BYTES), _MOST_BYTES)
            if not whole.eof:
                raise ValueError("the file goes on after the data set")
        except (OSError, ValueError, EOFError):
            raise DataSetError(f"Cannot read {place}; reinstall it with `{self._reinstall}`.") from None
        digest = hashlib.sha256(raw).hexdigest()
        if digest != self.sha256:
            raise DataSetError(
                f"{place} is not the file that FairShares was checked with (SHA-256 {digest[:12]}, expected "
                f"{self.sha256[:12]}); run `{self._reinstall}`."
            )
        return raw

    @property
    def _reinstall(self) -> str:
        return f"pip install --force-reinstall {self.package}=={self.version}"

    def _find(self) -> Path:
        # find_spec saves the import of the package, which is not needed.
        spec = importlib.util.find_spec(self.package)
        if spec is None or spec.origin is None:
            raise DataSetError(
                f"The data set {self.data_set} comes with the Python package {self.package}, which is not "
                f"installed here; run `pip install {self.package}=={self.version}`."
            )
        return Path(spec.origin).parent / self.path
