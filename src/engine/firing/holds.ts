/**
 * Which fast-path messages are covered. Messages are read in the order of their offsets; one that owes something not yet
 * published holds its place open, and O stands at the first open place.
 */
export interface Hold {
  offset: number;
  open: boolean;
  /** The batch that pays everything owed, while it is on the way. */
  paidBy: object | null;
}

export class Holds {
  /** Offset after the last message that was applied, or put off with a place of its own. */
  position = 0;
  private places: Hold[] = [];

  hold(offset: number): Hold {
    const place = { offset, open: true, paidBy: null };
    this.places.push(place);
    return place;
  }

  /** First offset that is not covered once `batch` is acknowledged (null: as things stand). */
  covered(batch: object | null): number {
    // A place that is never released would keep all behind it, so what is closed goes wherever it stands.
    if (this.places.some((place) => !place.open)) this.places = this.places.filter((place) => place.open);
    const first = this.places.find((place) => batch === null || place.paidBy !== batch);
    return first?.offset ?? this.position;
  }

  get open(): number {
    return this.places.reduce((sum, place) => sum + (place.open ? 1 : 0), 0);
  }
}
