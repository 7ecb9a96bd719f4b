/** How to install the server, and what a server that did not start has said about it. */

import type { NotFound } from "./find";

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

/** Whether what was not found is what a setting names. */
export function isSetting(missing: NotFound): boolean {
  return missing.tried[0]?.startsWith("gradlint.") === true;
}

export function notFound(missing: NotFound, platform: string): string {
  if (isSetting(missing)) {
    return `gradlint cannot be started: there is no program at ${(missing.tried[0] ?? "").replace(": ", " = ")}.`;
  }
  if (missing.foreign.length > 0) {
    return foreign(missing.foreign, platform);
  }
  return `gradlint was not found. Install it into your Python environment: ${installCommand(undefined, platform)}`;
}

/** Another distribution on the package index has the same name. */
export function foreign(programs: readonly string[], platform: string): string {
  return (
    `${programs[0]} is another program that is called gradlint, or one that does not work. ` +
    `The linter is the package torch-gradlint: ${installCommand(undefined, platform)}`
  );
}

/** The line that says why: an error by name, else the last one. */
export function reasonFrom(lastWords: readonly string[]): string {
  const lines = lastWords.map((line) => line.trim()).filter((line) => line !== "");
  const named = lines.findLast((line) => /^(error|\w*(Error|Exception))\b/i.test(line));
  return named ?? lines.at(-1) ?? "it did not say why.";
}
