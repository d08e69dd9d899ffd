/**
 * A judge that throws is called from within calls of stores, whose callers take it for an error of theirs and go on: it must
 * break the seed instead.
 */
export function guarded<T extends object>(judge: T, fail: (invariant: string, detail: string) => void): T {
  return new Proxy(judge, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== 'function') return value;
      return (...args: unknown[]) => {
        try {
          return value.apply(target, args);
        } catch (error) {
          fail('oracle', error instanceof Error ? (error.stack ?? error.message) : String(error));
        }
      };
    },
  });
}
