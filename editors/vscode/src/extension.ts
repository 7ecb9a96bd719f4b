/** Starts `gradlint server` for Python files and notebooks. */

import * as vscode from "vscode";

import { RulePages } from "./explain";
import { pythonExtension } from "./python";
import { Server } from "./server";
import { RESTARTING } from "./settings";

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const channel = vscode.window.createOutputChannel("gradlint", { log: true });
  const running = (server = new Server(channel, context.workspaceState));
  const pages = new RulePages(running);
  const command = vscode.commands.registerCommand;
  context.subscriptions.push(
    channel,
    pages.register(),
    command("gradlint.restart", () => running.restart(true)),
    command("gradlint.showOutput", () => channel.show()),
    command("gradlint.showRule", (code?: unknown) => pages.explain(code)),
    command("gradlint.fixFile", fixAll),
    vscode.workspace.onDidChangeConfiguration((change) => reconfigure(running, change)),
  );
  const python = await pythonExtension();
  if (python !== undefined) {
    context.subscriptions.push(python.environments.onDidChangeActiveEnvironmentPath(() => running.restart()));
  }
  await running.restart();
}

export function deactivate(): Promise<void> | undefined {
  return server?.stop();
}

/** VS Code's own way: it asks the server for the action, and says so if there is nothing to fix. */
async function fixAll(): Promise<void> {
  const action = { kind: "source.fixAll.gradlint", apply: "first" };
  await vscode.commands.executeCommand("editor.action.sourceAction", action);
}

/** The server asks to be told of all other settings. */
async function reconfigure(running: Server, change: vscode.ConfigurationChangeEvent): Promise<void> {
  if (RESTARTING.some((key) => change.affectsConfiguration(`gradlint.${key}`))) {
    await running.restart();
  }
}
