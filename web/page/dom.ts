/** Makes elements. Texts go in as texts alone, so nothing that a task or a table says becomes markup. */

export type Child = Node | string;

/** Return an element with attributes and children. */
export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function paragraph(text: string): HTMLParagraphElement {
  return element("p", {}, text);
}

/** Return a button that does something; `main` is the one of a view that goes on. */
export function button(text: string, kind: "main" | "other", does: () => void): HTMLButtonElement {
  const made = element("button", { type: "button", class: kind }, text);
  made.addEventListener("click", does);
  return made;
}

/** Return a table with a header row; the first cell of each row is its header. Wide ones scroll by themselves. */
export function table(caption: string, header: readonly string[], rows: readonly (readonly Child[])[]): HTMLElement {
  const head = element("tr", {}, ...header.map((text) => element("th", { scope: "col" }, text)));
  const body = rows.map((cells) => {
    const made = cells.map((cell, i) => (i === 0 ? element("th", { scope: "row" }, cell) : element("td", {}, cell)));
    return element("tr", {}, ...made);
  });
  const whole = element(
    "table",
    {},
    element("caption", {}, caption),
    element("thead", {}, head),
    element("tbody", {}, ...body),
  );
  return element("div", { class: "wide", role: "region", "aria-label": caption, tabindex: "0" }, whole);
}

/** Return a part that opens when its heading is chosen. */
export function opening(heading: string, ...children: readonly Child[]): HTMLElement {
  return element("details", {}, element("summary", {}, element("h2", {}, heading)), ...children);
}

/** Let the reader save bytes under a name. */
export function save(name: string, bytes: Uint8Array<ArrayBuffer>, kind: string): void {
  const address = URL.createObjectURL(new Blob([bytes], { type: kind }));
  const link = element("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
