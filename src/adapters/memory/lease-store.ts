import type { Lease, LeaseStore, Session } from '../../ports/lease-store.ts';

interface Lead {
  holder: string | null;
  term: number;
  beat: number;
}

export function memoryLeaseStore(): LeaseStore {
  const sessions = new Map<string, Session>();
  const leads = new Map<string, Lead>();
  const leases = new Map<string, Lease>();
  const place = ({ delivery, slot }: Pick<Lease, 'delivery' | 'slot'>): string => `${delivery}/${slot}`;

  /** The stored lease, where owner and epoch are those that were seen. */
  function asSeen(seen: Lease): Lease | null {
    const stored = leases.get(place(seen));
    return stored !== undefined && stored.owner === seen.owner && stored.epoch === seen.epoch ? stored : null;
  }

  return {
    async openSession(session) {
      sessions.set(session.incarnation, structuredClone(session));
    },
    async renewSession(incarnation, report) {
      const session = sessions.get(incarnation);
      if (session === undefined) return false;
      Object.assign(session, structuredClone(report), { beat: session.beat + 1 });
      return true;
    },
    async endSession(incarnation, seenBeat) {
      if (seenBeat !== null && sessions.get(incarnation)?.beat !== seenBeat) return false;
      return sessions.delete(incarnation);
    },
    sessions: async () => structuredClone([...sessions.values()]),
    async lead(role, incarnation, seen) {
      const now = leads.get(role) ?? { holder: null, term: 0, beat: 0 };
      const kept = now.holder === incarnation;
      const free = now.holder === null || (now.term === seen?.term && now.beat === seen.beat);
      if (kept) leads.set(role, { ...now, beat: now.beat + 1 });
      else if (free) leads.set(role, { holder: incarnation, term: now.term + 1, beat: 0 });
      const { holder, term, beat } = leads.get(role)!;
      return { holder: holder!, term, beat, mine: holder === incarnation };
    },
    async resign(role, incarnation) {
      const now = leads.get(role);
      if (now?.holder === incarnation) now.holder = null;
    },
    async createSlots(slots) {
      for (const { delivery, slot } of slots) {
        if (leases.has(place({ delivery, slot }))) continue;
        leases.set(place({ delivery, slot }), { delivery, slot, owner: null, epoch: 0, wanted: 'keep' });
      }
    },
    async leases(owner) {
      const all = [...leases.values()];
      return structuredClone(owner === undefined ? all : all.filter((lease) => lease.owner === owner));
    },
    async assign(lease, owner) {
      const stored = asSeen(lease);
      if (stored === null || stored.owner !== null) return false;
      Object.assign(stored, { owner, epoch: stored.epoch + 1, wanted: 'keep' });
      return true;
    },
    async ask(lease, wanted) {
      const stored = asSeen(lease);
      if (stored === null || stored.owner === null) return false;
      stored.wanted = wanted;
      return true;
    },
    async free(lease) {
      const stored = asSeen(lease);
      if (stored === null || stored.owner === null) return false;
      Object.assign(stored, { owner: null, wanted: 'keep' });
      return true;
    },
  };
}
