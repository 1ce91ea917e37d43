import type { Attempt, StoredAnswer } from './attempt.ts';

/** Fields of an attempt that change when its student is erased. */
type ErasedFields = Pick<
  Attempt,
  'studentId' | 'startKeys' | 'studentInfo' | 'courseContext' | 'answers' | 'events'
> & { erasedAt: Date };

/**
 * Returns the fields of an attempt after its student was erased. Scores, selected options, times and the number of keys and events stay, so
 * that statistics and unique keys hold. Texts are the student's own work and may name their author; metadata and start keys come from a
 * client and may contain anything. All of them are emptied.
 */
export function erasedFields(attempt: Attempt, pseudonym: string, now: Date): ErasedFields {
  const { courseContext } = attempt;
  return {
    studentId: pseudonym,
    startKeys: attempt.startKeys.map((_, index) => `erased:${attempt._id}:${index}`),
    studentInfo: null,
    courseContext: courseContext === null ? null : { ...courseContext, studentId: pseudonym },
    answers: Object.fromEntries(Object.entries(attempt.answers).map(([key, answer]) => [key, withoutText(answer)])),
    events: attempt.events.map((event) => ({ ...event, metadata: '{}' })),
    erasedAt: now,
  };
}

/** The answer stays, so that it counts as given, with its score. */
function withoutText({ textRef, ...answer }: StoredAnswer): StoredAnswer {
  return textRef === undefined && answer.text === undefined ? answer : { ...answer, text: '' };
}

/** Returns true if the student of the attempt was erased. Such an attempt has no notices and takes no further grade. */
export function isErasedAttempt({ erasedAt }: Pick<Attempt, 'erasedAt'>): boolean {
  return erasedAt !== undefined && erasedAt !== null;
}
