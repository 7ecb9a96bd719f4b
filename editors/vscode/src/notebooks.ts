/** Fixing notebooks on save: VS Code asks for the actions of the first cell alone, and that is Markdown in most. */

import * as vscode from "vscode";
import { CodeActionRequest, type CodeAction, type LanguageClient } from "vscode-languageclient/node";

const FIX_ALL = "notebook.source.fixAll.gradlint";
const KIND = vscode.CodeActionKind.Empty.append(FIX_ALL);

/** Answers for Markdown cells with what the server says of the notebook's first Python cell. */
export function fixesForMarkdownCells(client: LanguageClient): vscode.Disposable {
  const selector = { notebookType: "jupyter-notebook", language: "markdown" };
  const provider: vscode.CodeActionProvider = {
    async provideCodeActions(document, _range, context, token) {
      const cell = context.only?.intersects(KIND) === true ? firstPythonCell(document) : undefined;
      if (cell === undefined) {
        return [];
      }
      const start = { line: 0, character: 0 };
      const wish = {
        textDocument: { uri: client.code2ProtocolConverter.asUri(cell.document.uri) },
        range: { start, end: start },
        context: { diagnostics: [], only: [FIX_ALL] },
      };
      const answer = (await client.sendRequest(CodeActionRequest.type, wish, token)) ?? [];
      const actions = answer.filter((action): action is CodeAction => "kind" in action && action.kind === FIX_ALL);
      return Promise.all(actions.map((action) => client.protocol2CodeConverter.asCodeAction(action, token)));
    },
  };
  return vscode.languages.registerCodeActionsProvider(selector, provider, { providedCodeActionKinds: [KIND] });
}

function firstPythonCell(document: vscode.TextDocument): vscode.NotebookCell | undefined {
  const holds = (cell: vscode.NotebookCell): boolean => cell.document === document;
  const notebook = vscode.workspace.notebookDocuments.find((candidate) => candidate.getCells().some(holds));
  return notebook?.getCells().find((cell) => cell.document.languageId === "python");
}
