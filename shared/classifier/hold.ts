import { type Charge, sumOfCharges } from './charge.ts';

/** What one generation may still cost its organization. */
export interface Hold extends Charge {
  previewId: string;
  /** Of the generation's holder that put it there. */
  fence: number;
  /** A hold of a process that died is over then. */
  until: Date;
}

/** Everything that an organization has in flight, in the order in which it was held; `_id` is the organization's. */
export interface OrganizationHolds {
  _id: string;
  holds: Hold[];
}

/** What stands before a generation's own hold: all of it, where that one is not there. */
export function heldBefore({ holds }: Pick<OrganizationHolds, 'holds'>, previewId: string): Charge {
  const place = holds.findIndex((hold) => hold.previewId === previewId);
  return sumOfCharges(place === -1 ? holds : holds.slice(0, place));
}
