/** One `gradlint server` for the window: found, started, told of changed settings, and stopped. */

import { homedir } from "node:os";
import type { Readable } from "node:stream";

import * as vscode from "vscode";
import {
  CloseAction,
  DidChangeConfigurationNotification,
  ErrorAction,
  LanguageClient,
  State,
  type LanguageClientOptions,
} from "vscode-languageclient/node";

import { findServer, isFound, isOurVersion, type Command } from "./find";
import { machine, output } from "./machine";
import { tellForeign, tellNotFound, tellStopped } from "./messages";
import { fixesForMarkdownCells } from "./notebooks";
import { Once, type Memory } from "./once";
import { selectedPython } from "./python";
import { readSettings, serverOptions, type Settings } from "./settings";

const SECTION = "gradlint";
/** The server's own command, which comes with the code action "Explain GL…". */
const EXPLAIN = "gradlint.explainRule";
/** A server that dies more often than this within some minutes is left alone. */
const RESTARTS = 3;
const MINUTES = 3;
/** What a dying server says last is what people need to read. */
const KEPT_LINES = 20;

/** Its errors go to the output: `messages.ts` tells of those that people can do something about, in their words. */
class Client extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}

export class Server {
  private client: LanguageClient | undefined;
  private markdownCells: vscode.Disposable | undefined;
  /** Starts and stops run one after the other: settings may change while the server starts. */
  private queue: Promise<void> = Promise.resolve();
  private found: Command | undefined;
  private lastWords: string[] = [];
  private deaths: number[] = [];

  private readonly once: Once;

  constructor(
    readonly channel: vscode.LogOutputChannel,
    memory: Memory,
  ) {
    this.once = new Once(memory);
  }

  /** The program that runs, or ran last. */
  get program(): Command | undefined {
    return this.found;
  }

  /** `asked`: by somebody who wants to be told whatever comes of it. */
  restart(asked = false): Promise<void> {
    this.deaths = [];
    return this.enqueue(async () => {
      await this.end();
      await this.begin(asked);
    });
  }

  stop(): Promise<void> {
    return this.enqueue(() => this.end());
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    this.queue = this.queue.then(work).catch((error: unknown) => this.channel.error(String(error)));
    return this.queue;
  }

  private async begin(asked: boolean): Promise<void> {
    const settings = settingsNow();
    if (!settings.enable) {
      this.channel.info("gradlint.enable is off");
      return;
    }
    const folder = vscode.workspace.workspaceFolders?.[0];
    const selected = await selectedPython(folder?.uri);
    const { path, interpreter } = settings;
    const found = await findServer({ path, interpreter, selected, folder: folder?.uri.fsPath }, machine);
    if (!isFound(found)) {
      this.channel.error(`gradlint was not found. Tried: ${found.tried.join("; ")}`);
      await tellNotFound(found, selected, this.channel, (message) => this.once.isNews(message, asked));
      return;
    }
    this.found = found;
    const line = [found.command, ...found.args, "server", ...settings.args];
    this.channel.info(`${line.join(" ")} (from ${found.origin})`);
    const version = await output(found, ["--version"]);
    this.channel.info(version?.trim() ?? "it does not tell its version");
    if (version !== undefined && !isOurVersion(version)) {
      await tellForeign(found, selected, this.channel, (message) => this.once.isNews(message, asked));
      return;
    }
    await this.once.forget();
    await this.launch(line, settings, selected);
  }

  private async launch(line: string[], settings: Settings, selected: string | undefined): Promise<void> {
    const [command = "", ...args] = line;
    this.lastWords = [];
    // Not in the workspace: `python -m` would take a folder named `gradlint` there for the module.
    const options = { cwd: homedir(), env: { ...process.env, PYTHONUTF8: "1", PYTHONUNBUFFERED: "1" } };
    this.client = new Client(SECTION, "gradlint", { command, args, options }, this.options(settings, selected));
    try {
      await this.client.start();
      this.markdownCells = fixesForMarkdownCells(this.client);
    } catch (error) {
      this.channel.error(String(error));
      tellStopped(this.lastWords, this.found, selected, this.channel);
    }
  }

  private async tell(): Promise<void> {
    if (this.client?.state === State.Running) {
      const settings = { [SECTION]: serverOptions(settingsNow()) };
      await this.client.sendNotification(DidChangeConfigurationNotification.type, { settings });
    }
  }

  private async end(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.markdownCells?.dispose();
    // One that never ran cannot be disposed of either.
    if (client?.state === State.Running || client?.state === State.Starting) {
      await client.dispose();
    }
  }

  private options(settings: Settings, selected: string | undefined): LanguageClientOptions {
    return {
      documentSelector: [
        { language: "python", scheme: "file" },
        { language: "python", scheme: "untitled" },
        { language: "python", scheme: "vscode-notebook-cell" },
      ],
      initializationOptions: serverOptions(settings),
      outputChannel: this.channel,
      ...(settings.trace ? { traceOutputChannel: tracing(this.channel) } : {}),
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => this.closed(selected),
      },
      middleware: {
        // VS Code has a better place for the page than the file that the server would open.
        executeCommand: (command, args, next) =>
          command === EXPLAIN ? vscode.commands.executeCommand("gradlint.showRule", ...args) : next(command, args),
        workspace: {
          // The server is told what concerns it, and not how it was found.
          didChangeConfiguration: () => this.enqueue(() => this.tell()),
          configuration: (params) =>
            params.items.map((item) => (item.section === SECTION ? serverOptions(settingsNow()) : null)),
        },
      },
      stdioOptions: { stdout: () => undefined, stderr: (input) => this.listen(input) },
    };
  }

  private closed(selected: string | undefined): { action: CloseAction; handled: boolean } {
    const running = this.client?.state === State.Running;
    const now = Date.now();
    this.deaths = [...this.deaths, now].filter((time) => now - time < MINUTES * 60_000);
    if (running && this.deaths.length <= RESTARTS) {
      this.channel.warn("the server has stopped, and is started again");
      return { action: CloseAction.Restart, handled: true };
    }
    if (running) {
      tellStopped(this.lastWords, this.found, selected, this.channel);
    }
    return { action: CloseAction.DoNotRestart, handled: true };
  }

  private listen(stderr: Readable): void {
    let rest = "";
    stderr.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split(/\r?\n/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        this.channel.info(line);
        this.lastWords = [...this.lastWords, line].slice(-KEPT_LINES);
      }
    });
  }
}

/** The client writes the messages at the level `trace`, which people would have to raise the channel to, each time anew. */
function tracing(channel: vscode.LogOutputChannel): vscode.LogOutputChannel {
  return new Proxy(channel, {
    get(target, name) {
      if (name === "logLevel") {
        return vscode.LogLevel.Trace;
      }
      const value: unknown = Reflect.get(target, name === "trace" ? "info" : name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

function settingsNow(): Settings {
  return readSettings(vscode.workspace.getConfiguration(SECTION));
}
