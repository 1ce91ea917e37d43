import type { Examiner, TimeGrant } from '#shared/attempt/extra-time.ts';

/** A grant as it is stored, with what it has changed so far. */
interface StoredGrant extends TimeGrant {
  studentIds: readonly string[] | null;
  at: Date;
  updated: number;
  sitting: number;
}

/**
 * Returns the students whom another examiner has named: the caller sees only those of them whose attempts the caller examines. null: the caller
 * sees the whole grant. The caller's own grants may name students who have not started.
 */
export function namedByAnother({ by, studentIds }: StoredGrant, caller: Examiner): readonly string[] | null {
  return caller.role === 'ADMIN' || by.id === caller.id ? null : studentIds;
}

/** Returns a grant for the list of an exam, or null if the caller may not see it. `examined`: students of whom the caller examines an attempt. */
export function grantForReply(grant: StoredGrant, caller: Examiner, examined: ReadonlySet<string>) {
  const { _id: id, minutes, by, reason, at, updated } = grant;
  const named = namedByAnother(grant, caller)?.filter((student) => examined.has(student));
  if (named?.length === 0) return null;
  return { id, minutes, studentIds: named ?? grant.studentIds, by: by.id, reason, at: at.toISOString(), updated };
}

/** Returns the result of a grant. Named students who are not sitting get their minutes at their next start. */
export function grantResult({ _id, minutes, studentIds, updated, sitting }: StoredGrant) {
  return { id: _id, minutes, updated, remembered: studentIds === null ? null : studentIds.length - sitting };
}
