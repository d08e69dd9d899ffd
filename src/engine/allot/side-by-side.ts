/** Calls that are on their way at the same time: an answer takes a store or broker a few ms, and there may be 512 slots. */
const AT_ONCE = 16;

/** Runs something for each item, several side by side; the first error is thrown when all have ended. */
export async function sideBySide<T>(items: readonly T[], run: (item: T) => Promise<void>): Promise<void> {
  const left = [...items];
  const errors: unknown[] = [];
  const work = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      try {
        await run(item);
      } catch (error) {
        errors.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, work));
  if (errors.length > 0) throw errors[0];
}
