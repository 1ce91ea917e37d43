import { setTimeout as delay } from 'node:timers/promises';
import { newExamId } from '#testing/clients/attempt-client.ts';
import { until } from '#testing/until.ts';
import {
  type Book,
  createJob,
  generatePaid,
  handOff,
  notify,
  register,
  releaseExam,
  rotate,
  type Sitting,
  save,
  start,
  submit,
} from './book.ts';

/** A class that sits exams without end, through the gateway. */
export interface Load {
  /** Number of sittings that are finished. */
  finished(): number;
  /** Waits until as many more sittings are finished. @throws the error of a call that a client could not finish */
  more(count: number): Promise<void>;
  /** Lets the sittings in progress finish. @throws the same */
  end(): Promise<void>;
}

const SAVES = 6;
const LONG_MS = 300_000;
const PAUSE_MS = 250;

/** Starts a class of this many students. Every second sitting has an essay. */
export function startLoad(book: Book, url: string, students: number): Load {
  const examId = newExamId();
  let isOver = false;
  let finished = 0;
  let fault: { error: unknown } | undefined;

  async function sitExams(n: number): Promise<void> {
    for (let nth = n; !isOver; nth++) {
      const essay = nth % 2 === 1;
      const sitting = await start(book, url, essay ? `${examId}-essay` : examId, { essay });
      for (let count = 0; count < SAVES; count++) await save(url, sitting, count);
      await submit(url, sitting);
      if (essay) await handOff(url, sitting, 1 + (nth % 5));
      finished += 1;
      // Leaves the processor to the processes that start.
      await delay(PAUSE_MS);
    }
  }

  const lanes = Array.from({ length: students }, (_, n) =>
    sitExams(n).catch((error: unknown) => {
      fault ??= { error };
    }),
  );
  const check = () => {
    if (fault !== undefined) throw fault.error;
  };
  return {
    finished: () => finished,
    async more(count) {
      const from = finished;
      const isReached = () => {
        check();
        return finished >= from + count;
      };
      await until(`${count} more sittings are finished`, isReached, LONG_MS);
    },
    async end() {
      isOver = true;
      await Promise.all(lanes);
      check();
      await releaseExam(book, url, `${examId}-essay`);
    },
  };
}

/** Work beside the sittings that each mixture of releases does once: every kind of command, and the attempts that the earlier release began. */
export async function workOnce(
  book: Book,
  url: string,
  mixture: string,
  open: readonly Sitting[],
  saves: number,
): Promise<void> {
  await Promise.all([
    ...open.map(async (sitting) => {
      for (let nth = 0; nth < saves; nth++) await save(url, sitting, sitting.saves);
    }),
    (async () => {
      for (const session of book.sessions) for (let n = 0; n < 2; n++) await rotate(url, session);
      await register(book, url);
    })(),
    createJob(book, url),
    generatePaid(book, url, mixture),
    // An equal request: its questions were paid for before.
    ...['paid by the earlier release', 'unpaid by the earlier release'].map((topic) => generatePaid(book, url, topic)),
    notify(book, url),
  ]);
}
