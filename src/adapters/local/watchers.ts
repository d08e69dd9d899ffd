/** Who wants to know of changes, by topic. */
export class Watchers {
  readonly #byTopic = new Map<string, Set<() => void>>();

  watch(topic: string, changed: () => void): () => void {
    let all = this.#byTopic.get(topic);
    if (all === undefined) {
      all = new Set();
      this.#byTopic.set(topic, all);
    }
    const own = all;
    own.add(changed);
    return () => {
      own.delete(changed);
      if (own.size === 0 && this.#byTopic.get(topic) === own) this.#byTopic.delete(topic);
    };
  }

  tell(topics: Iterable<string>): void {
    for (const topic of topics) {
      for (const changed of this.#byTopic.get(topic) ?? []) changed();
    }
  }
}
