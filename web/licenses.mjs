// Writes LICENSES.txt beside both bundles: the licenses of all packages that are part of them, as these ask for.
import { readFileSync, writeFileSync } from "node:fs";

const lock = JSON.parse(readFileSync("package-lock.json", "utf-8"));
const texts = Object.entries(lock.packages)
  .filter(([place, { dev }]) => place !== "" && !dev)
  .map(([place, { version }]) => {
    const license = readFileSync(`${place}/LICENSE`, "utf-8").trim();
    return `${place.replace("node_modules/", "")} ${version}\n\n${license}\n`;
  });
for (const folder of ["dist", "../harness/uploads/page_files"]) {
  writeFileSync(`${folder}/LICENSES.txt`, texts.join("\n\n"));
}
