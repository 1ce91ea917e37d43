import { findTombstone, tombstoneId } from '#infra/mongo/erased-persons.ts';
import { operatorAudit } from '#infra/mongo/operator-audit.ts';
import { traceLine } from '#shared/operations/timeline.ts';
import { BOUND, CAP, capped, type Reading } from './reading.ts';

/**
 * Adds the acts of operators on these subjects: replays of their commands, changes of an account, reads of a person's data. A bulk act that
 * was requested for a subject names its digest.
 */
export async function addActs(reading: Reading, subjects: readonly string[]): Promise<number> {
  if (subjects.length === 0) return 0;
  const digests = await Promise.all(subjects.map((subject) => tombstoneId(reading.mongo, subject)));
  const rows = await operatorAudit(reading.mongo)
    .find(
      { subject: { $in: [...subjects, ...digests] } },
      { ...BOUND, hint: 'subject_in_pages', sort: { at: -1 }, limit: CAP + 1 },
    )
    .toArray();
  for (const row of capped(reading, 'act', rows)) {
    const about = 'commandId' in row ? row.commandId : row.subject;
    reading.lines.push(
      traceLine({ at: row.at, kind: 'act', id: row._id, state: row.action, what: row.operator, about }),
    );
  }
  return rows.length;
}

/** Adds the acts on a person, whom the audit names by the id of an account or by a digest, and the tombstone of an erased one. */
export async function addActsOnPerson(reading: Reading, personId: string): Promise<number> {
  const count = await addActs(reading, [personId]);
  const tombstone = await findTombstone(reading.mongo, personId);
  if (tombstone === null) return count;
  const { _id: id, state, operator: what, begunAt: at, erasedAt: endedAt } = tombstone;
  reading.lines.push(traceLine({ at, kind: 'act', id, state, what, endedAt }));
  return count + 1;
}
