/** What `sqlite-process.ts` says, a line each. */
export type Said = { opened: number } | { committed: number } | { refused: string; message: string };

export const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
