/** "Explain rule": the page of a rule, as the command line prints it, in VS Code's Markdown preview. */

import * as vscode from "vscode";

import { output } from "./machine";
import type { Server } from "./server";

const SCHEME = "gradlint-rule";

export class RulePages implements vscode.TextDocumentContentProvider {
  constructor(private readonly server: Server) {}

  register(): vscode.Disposable {
    return vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const code = uri.path.replace(/\.md$/, "");
    const program = this.server.program;
    const page = program && (await output(program, ["rule", code]));
    return page ?? `There is no page for \`${code}\`: is gradlint installed?`;
  }

  /** The rule that is named, or that is found under the cursor, or that is asked for. */
  async explain(named?: unknown): Promise<void> {
    const code = typeof named === "string" ? named : await this.chosen();
    if (code !== undefined) {
      const uri = vscode.Uri.from({ scheme: SCHEME, path: `${code}.md` });
      await vscode.commands.executeCommand("markdown.showPreview", uri);
    }
  }

  private async chosen(): Promise<string | undefined> {
    const here = codesUnderCursor();
    if (here.length === 1) {
      return here[0];
    }
    if (here.length > 1) {
      return vscode.window.showQuickPick(here, { placeHolder: "Which rule?" });
    }
    const given = await vscode.window.showInputBox({ prompt: "The code or name of a rule", placeHolder: "GL101" });
    return given?.trim() || undefined;
  }
}

function codesUnderCursor(): string[] {
  const editor = vscode.window.activeTextEditor;
  if (editor === undefined) {
    return [];
  }
  const line = editor.selection.active.line;
  const codes = vscode.languages
    .getDiagnostics(editor.document.uri)
    .filter((found) => found.source === "gradlint" && found.range.start.line <= line && line <= found.range.end.line)
    .map((found) => (typeof found.code === "object" ? found.code.value : found.code));
  return [...new Set(codes.map(String))];
}
