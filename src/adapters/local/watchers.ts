/** What is told when records were added to a partition; a topic's own name tells of the topic and of groups on it. */
export function recordsOf(topic: string, partition: number): string {
  return `${topic}/${partition}`;
}

/** Who wants to know of changes, by what changed. */
export class Watchers {
  readonly #byName = new Map<string, Set<() => void>>();

  watch(names: readonly string[], changed: () => void): () => void {
    for (const name of names) {
      const all = this.#byName.get(name);
      if (all === undefined) this.#byName.set(name, new Set([changed]));
      else all.add(changed);
    }
    return () => {
      for (const name of names) {
        const all = this.#byName.get(name);
        all?.delete(changed);
        if (all?.size === 0) this.#byName.delete(name);
      }
    };
  }

  tell(names: Iterable<string>): void {
    for (const name of names) {
      for (const changed of this.#byName.get(name) ?? []) changed();
    }
  }
}
