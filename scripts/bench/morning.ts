import { seededRandom } from '#scripts/sandbox/random.ts';
import { SECOND } from '#shared/kernel/time.ts';
import type { Arrival } from './open-loop.ts';

/** The course of an exam; times are in seconds from the first possible start. */
export interface Morning {
  students: number;
  /** All students start within this time. */
  startSeconds: number;
  /** Each student saves at this interval. */
  everySeconds: number;
  /** The exam ends then. */
  endSeconds: number;
  /** All students submit within this time before the end. */
  submitSeconds: number;
}

/** 2,000 students: about 200 saves a second for a minute, then 200 submits a second beside the last saves. */
export const WHOLE_MORNING: Morning = {
  students: 2_000,
  startSeconds: 60,
  everySeconds: 10,
  endSeconds: 150,
  submitSeconds: 10,
};
export const QUICK_MORNING: Morning = {
  students: 100,
  startSeconds: 5,
  everySeconds: 3,
  endSeconds: 15,
  submitSeconds: 2,
};

/** The requests of one student. */
export interface Sitting {
  start(): Promise<unknown>;
  save(index: number): Promise<unknown>;
  submit(): Promise<unknown>;
}

/** Returns the requests of all students with the times at which they are due. The times are random and the same in every run. */
export function planMorning(morning: Morning, sittingOf: (student: number) => Sitting): Arrival[] {
  const { students, startSeconds, everySeconds, endSeconds, submitSeconds } = morning;
  const random = seededRandom('exam morning');
  const arrivals: Arrival[] = [];
  for (let student = 0; student < students; student++) {
    const sitting = sittingOf(student);
    const startMs = random.fraction() * startSeconds * SECOND;
    const submitMs = (endSeconds - random.fraction() * submitSeconds) * SECOND;
    arrivals.push({ dueMs: startMs, route: 'start', send: () => sitting.start() });
    for (let n = 1; startMs + n * everySeconds * SECOND < submitMs; n++) {
      arrivals.push({ dueMs: startMs + n * everySeconds * SECOND, route: 'save', send: () => sitting.save(n) });
    }
    arrivals.push({ dueMs: submitMs, route: 'submit', send: () => sitting.submit() });
  }
  return arrivals;
}
