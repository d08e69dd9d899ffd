import { realpathSync } from 'node:fs';
import { BroadcastChannel } from 'node:worker_threads';
import { Watchers } from '../local/watchers.ts';

/**
 * Tells everybody in this process, in this thread and in others, what a commit has changed (names as in `Watchers`): readers
 * wait for this and ask the file only then, so an idle one costs nothing.
 */
export class Changes {
  readonly #watchers = new Watchers();
  readonly #channel: BroadcastChannel;

  constructor(folder: string) {
    this.#channel = new BroadcastChannel(`carillon:${realpathSync(folder)}`);
    this.#channel.onmessage = ({ data }: { data: unknown }) => this.#watchers.tell(data as string[]);
    this.#channel.unref();
  }

  watch(names: readonly string[], changed: () => void): () => void {
    return this.#watchers.watch(names, changed);
  }

  /** To be called after the commit: whoever is told reads at once. */
  tell(names: readonly string[]): void {
    if (names.length === 0) return;
    this.#channel.postMessage(names);
    this.#watchers.tell(names);
  }

  close(): void {
    this.#channel.close();
  }
}
