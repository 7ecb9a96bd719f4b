/** The settings of the editor, and what of them the server is told. */

export type Run = "onType" | "onSave";

export interface Settings {
  readonly enable: boolean;
  readonly path: string;
  readonly interpreter: string;
  readonly args: readonly string[];
  readonly preset: string;
  readonly select: readonly string[];
  readonly ignore: readonly string[];
  readonly unsafeFixes: boolean | null;
  readonly run: Run;
  /** Whether to write down the messages; vscode-languageclient reads by itself how much of each. */
  readonly trace: boolean;
}

/** Anything that has settings by name: VS Code's WorkspaceConfiguration, or a table in a test. */
export interface Source {
  get(key: string): unknown;
}

export function readSettings(source: Source): Settings {
  return {
    enable: source.get("enable") !== false,
    path: text(source.get("path")),
    interpreter: text(source.get("interpreter")),
    args: words(source.get("args")),
    preset: text(source.get("preset")),
    select: words(source.get("select")),
    ignore: words(source.get("ignore")),
    unsafeFixes: choice(source.get("unsafeFixes")),
    run: source.get("run") === "onSave" ? "onSave" : "onType",
    trace: ["messages", "verbose"].includes(text(source.get("trace.server"))),
  };
}

/** For `initializationOptions` and `workspace/configuration`. What was not chosen is left to the project's files. */
export function serverOptions(settings: Settings): Record<string, unknown> {
  return {
    enable: settings.enable,
    run: settings.run,
    ...(settings.preset === "" ? {} : { preset: settings.preset }),
    ...(settings.select.length === 0 ? {} : { select: settings.select }),
    ...(settings.ignore.length === 0 ? {} : { ignore: settings.ignore }),
    ...(settings.unsafeFixes === null ? {} : { unsafeFixes: settings.unsafeFixes }),
  };
}

/** A change of these needs a new process; the server takes the others as it runs. */
export const RESTARTING = ["enable", "path", "interpreter", "args", "trace.server"] as const;

function text(value: unknown): string {
  return typeof value === "string" ? value.trim() : "";
}

function words(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((word): word is string => typeof word === "string" && word !== "") : [];
}

function choice(value: unknown): boolean | null {
  return typeof value === "boolean" ? value : null;
}
