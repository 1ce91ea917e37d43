import type { Document } from 'mongodb';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { exportedFields } from '#infra/mongo/schema/personal-fields/rules.ts';
import {
  type CollectionLink,
  type CollectionName,
  DECLARATIONS,
  linksBy,
  PERSONAL_FIELDS,
} from '#infra/mongo/schema/personal-fields.ts';
import type { AttemptEvent, StoredAnswer } from '#shared/attempt/attempt.ts';
import { visibleMetadata } from '#shared/attempt/events.ts';
import { visibilityForStudent } from '#shared/attempt/visibility.ts';
import type { Queue } from '#shared/kernel/command.ts';
import { newRowsBehind, type Person, valuesOf } from './find.ts';

/** Numbers of the events that the shown attempts contain, by attempt. Rows of these events would show them a second time. */
type ShownEvents = Map<unknown, readonly number[]>;

/**
 * Yields the parts of one JSON document with every row about a person, by collection. At most one portion of ids, one row and the numbers
 * of the newest events of each attempt are in memory. A row has the fields that its collection declares as exported, or its link as shown,
 * and no other. Grades that the student may not see yet are omitted.
 */
export async function* exportPerson(mongo: Mongo, person: Person, now: Date): AsyncGenerator<string> {
  yield `{"person":${JSON.stringify(person.id)},"exportedAt":${JSON.stringify(now)},"collections":{`;
  const shownEvents: ShownEvents = new Map();
  let isFirst = true;
  for (const [collection] of DECLARATIONS) {
    let rows = 0;
    for await (const row of rowsOf(mongo, person, { collection, shownEvents, now })) {
      if (rows === 0) yield `${isFirst ? '' : '\n],'}\n${JSON.stringify(collection)}:[`;
      yield `${rows === 0 ? '' : ','}\n${JSON.stringify(row)}`;
      rows += 1;
      isFirst = false;
    }
  }
  yield `${isFirst ? '' : '\n]'}}}\n`;
}

async function* rowsOf(
  mongo: Mongo,
  person: Person,
  { collection, shownEvents, now }: { collection: CollectionName; shownEvents: ShownEvents; now: Date },
): AsyncGenerator<Document> {
  for (const link of linksBy('person', 'email', 'attempt', 'notification')) {
    if (link.collection !== collection || link.isRepeated || link.shows === '') continue;
    for await (const values of valuesOf(mongo, person, link.by)) {
      const hidden = link.by === 'attempt' ? await hiddenAmong(mongo, person, values, now) : new Set<unknown>();
      const cursor = mongo.db.collection(collection).find(newRowsBehind(link, values, person));
      for await (const row of cursor) {
        if (collection === 'attempts') shownEvents.set(row._id, numbersOf(row.events));
        if (collection === 'attempt_events' && shownEvents.get(row.attemptId)?.includes(row.seq) === true) continue;
        yield shownRow(link, row, hidden.has(row[link.field]), now);
      }
    }
  }
}

/** Returns the numbers of the events that a tail contains in full. */
function numbersOf(events: readonly AttemptEvent[]): number[] {
  return events.filter((event) => event.inRow !== true).map((event) => event.seq);
}

/** Returns those of these attempts whose result the student may not see yet. */
async function hiddenAmong(
  mongo: Mongo,
  { id: studentId }: Person,
  ids: readonly string[],
  now: Date,
): Promise<Set<unknown>> {
  const found = await attempts(mongo)
    .find({ studentId, _id: { $in: [...ids] } }, { projection: { status: 1, exam: 1, voidedAt: 1 } })
    .toArray();
  return new Set(found.filter((one) => !visibilityForStudent(one, now).resultVisible).map(({ _id }) => _id));
}

function shownRow(link: CollectionLink, row: Document, isHidden: boolean, now: Date): Document {
  const { collection } = link;
  const fields = new Set(exportedFields(PERSONAL_FIELDS[collection], link));
  const shown: Document = Object.fromEntries(Object.entries(row).filter(([field]) => fields.has(field)));
  if (collection === 'attempts') return shownAttempt(shown, now);
  if (collection === 'attempt_events') return shownEvent(shown as unknown as AttemptEvent, isHidden);
  if (collection === 'commands') return shownCommand(shown, isHidden);
  // The address of a browser is a secret. Its origin names the push service only.
  if (collection === 'notification_push_subscriptions')
    return { ...shown, origin: new URL(String(row.endpoint)).origin };
  return shown;
}

const TOTALS = ['totalScore', 'correctCount', 'wrongCount', 'pendingManualCount', 'tally'] as const;

/** Hides the scores while the student may not see them. The paper, which holds the keys, is no part of an export. */
function shownAttempt(row: Document, now: Date): Document {
  const isHidden = !visibilityForStudent(row as Parameters<typeof visibilityForStudent>[0], now).resultVisible;
  const events = (row.events as AttemptEvent[]).map((event) => shownEvent(event, isHidden));
  if (!isHidden) return { ...row, events };
  const answers = Object.entries(row.answers as Record<string, StoredAnswer>);
  return {
    ...row,
    ...Object.fromEntries(TOTALS.map((field) => [field, null])),
    answers: Object.fromEntries(answers.map(([key, answer]) => [key, withoutGrade(answer)])),
    events,
  };
}

function withoutGrade({ standing: _, ...answer }: StoredAnswer): StoredAnswer {
  return { ...answer, isCorrect: null, score: null };
}

function shownEvent(event: AttemptEvent, isHidden: boolean): AttemptEvent {
  const isHandoff = event.type === 'ESSAY_GRADE_HANDOFF';
  const metadata = visibleMetadata(event, !isHidden);
  return { ...event, metadata: JSON.stringify(isHandoff ? withoutGrader(metadata) : metadata) };
}

/** The grader of an essay is another person. */
function withoutGrader({ gradedById: _, ...handoff }: Record<string, unknown>): Record<string, unknown> {
  return handoff;
}

/** Returns the parts of a command that are about the person: what a client has sent, and the remarks on an essay. */
function shownCommand(row: Document, isHidden: boolean): Document {
  const { queue, body } = row;
  if (queue === ('accountnotices' satisfies Queue)) return row;
  const handoff = body.handoff === undefined || isHidden ? {} : { handoff: withoutGrader(body.handoff) };
  return { ...row, body: { client: body.client, ...handoff } };
}
