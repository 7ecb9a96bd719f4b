/** How to install the server, and what a server that did not start has said about it. */

const PACKAGE = '"torch-gradlint[lsp]"';

export function installCommand(python: string | undefined, platform: string): string {
  if (python === undefined) {
    return `pip install ${PACKAGE}`;
  }
  // PowerShell takes a quoted first word for a text, unless & goes before it.
  const call = platform === "win32" ? "& " : "";
  const program = /^[\w./:\\~-]+$/.test(python) ? python : `${call}"${python}"`;
  return `${program} -m pip install ${PACKAGE}`;
}

/** The line that says why: an error by name, else the last one. */
export function reasonFrom(lastWords: readonly string[]): string {
  const lines = lastWords.map((line) => line.trim()).filter((line) => line !== "");
  const named = lines.findLast((line) => /^(error|\w*(Error|Exception))\b/i.test(line));
  return named ?? lines.at(-1) ?? "it did not say why.";
}
