/**
 * A stable 32-bit hash of a text: FNV-1a over its UTF-16 code units, ended by the mixer of MurmurHash3 so that the low digits
 * that a remainder takes depend on every character. Values are part of what users see (which minute `H` is), so this function
 * must never change.
 */
export function stableHash(text: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) {
    hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
