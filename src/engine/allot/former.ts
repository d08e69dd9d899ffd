import type { LeaseStore } from '../../ports/lease-store.ts';
import { MANAGERS } from './leader.ts';

/**
 * Ends every session and the leadership and frees every lease: for a process that knows for certain that all processes
 * before it are gone, since it holds a lock that the operating system gives to one at a time. Firing then begins at once, not
 * when the sessions of the dead have run out. Epochs are left as they are: the next assignment raises them.
 */
export async function endFormer(leases: LeaseStore): Promise<void> {
  for (const { incarnation } of await leases.sessions()) await leases.endSession(incarnation, null);
  for (const lease of await leases.leases()) if (lease.owner !== null) await leases.free(lease);
  // Asked without having seen a beat, a leadership that is held stays with its holder, which is named.
  const { holder } = await leases.lead(MANAGERS, 'nobody', null);
  await leases.resign(MANAGERS, holder);
}
