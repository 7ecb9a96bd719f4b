/** Who was told that gradlint is missing is not told again in this workspace, until it was there, or until they ask. */

/** The part of `vscode.Memento` that is used here. */
export interface Memory {
  get(key: string): unknown;
  update(key: string, value: unknown): PromiseLike<void>;
}

const KEY = "gradlint.told";

export class Once {
  constructor(private readonly memory: Memory) {}

  /** Whether this is news, or was asked for. */
  async isNews(message: string, asked: boolean): Promise<boolean> {
    const news = asked || this.memory.get(KEY) !== message;
    await this.memory.update(KEY, message);
    return news;
  }

  /** All is well. */
  async forget(): Promise<void> {
    if (this.memory.get(KEY) !== undefined) {
      await this.memory.update(KEY, undefined);
    }
  }
}
