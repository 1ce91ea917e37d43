import type { TimeGrant } from '#shared/attempt/extra-time.ts';

/** A grant as it is stored, with what it has changed so far. */
interface StoredGrant extends TimeGrant {
  studentIds: readonly string[] | null;
  at: Date;
  updated: number;
  sitting: number;
}

/** Returns a grant for the list of an exam. */
export function grantForReply({ _id, minutes, studentIds, by, reason, at, updated }: StoredGrant) {
  return { id: _id, minutes, studentIds, by: by.id, reason, at: at.toISOString(), updated };
}

/** Returns the result of a grant. Named students who are not sitting get their minutes at their next start. */
export function grantResult({ _id, minutes, studentIds, updated, sitting }: StoredGrant) {
  return { id: _id, minutes, updated, remembered: studentIds === null ? null : studentIds.length - sitting };
}
