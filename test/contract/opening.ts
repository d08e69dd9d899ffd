/**
 * What a suite over a store is given: it opens once per test, so a store is empty at first (an own database, file or key
 * prefix on a shared server).
 */
export interface StoreOpening<Store> {
  store: Store;
  /** Closes the store and opens the same data again, as after a restart; absent where nothing outlives the process. */
  reopen?(): Promise<Store>;
  close(): Promise<void>;
}

/** The store after a restart; the same one where nothing outlives the process. */
export async function reopened<Store>(opening: StoreOpening<Store>): Promise<Store> {
  if (opening.reopen !== undefined) opening.store = await opening.reopen();
  return opening.store;
}
