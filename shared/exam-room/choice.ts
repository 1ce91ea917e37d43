import type { Attempt } from '#shared/attempt/attempt.ts';

/** Which attempts of a student count. */
export const ATTEMPT_CHOICES = ['all', 'first', 'last', 'best'] as const;
export type AttemptChoice = (typeof ATTEMPT_CHOICES)[number];

type Chosen = Pick<Attempt, 'studentId' | 'totalScore'>;

/**
 * Yields the attempts that count. They come by student, and those of a student by number, so that one attempt is in memory at a time. Of
 * equal ones the earlier attempt is the best.
 */
export async function* chosenAttempts<Row extends Chosen>(
  rows: AsyncIterable<Row>,
  choice: AttemptChoice,
): AsyncGenerator<Row> {
  if (choice === 'all') return yield* rows;
  let kept: Row | null = null;
  for await (const row of rows) {
    if (kept !== null && kept.studentId !== row.studentId) {
      yield kept;
      kept = null;
    }
    if (kept === null || isChosen(choice, kept, row)) kept = row;
  }
  if (kept !== null) yield kept;
}

/** Returns true if the later attempt of a student takes the place of the one that was kept. An attempt without a score is the worst. */
function isChosen(choice: AttemptChoice, kept: Chosen, later: Chosen): boolean {
  if (choice === 'best') return scoreOf(later) > scoreOf(kept);
  return choice === 'last';
}

function scoreOf({ totalScore }: Chosen): number {
  return totalScore ?? Number.NEGATIVE_INFINITY;
}
