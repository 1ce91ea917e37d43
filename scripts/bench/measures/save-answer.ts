import { randomBytes } from 'node:crypto';
import { attempts } from '#infra/mongo/attempt/collections.ts';
import { openEventTails } from '#infra/mongo/attempt/event-tail.ts';
import { type AnswerWrite, saveAnswer } from '#infra/mongo/attempt/save-answer.ts';
import type { Mongo } from '#infra/mongo/connect.ts';
import { answerBody, benchPaper, contentOf, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import {
  alternate,
  type BenchContext,
  figuresOf,
  type Measure,
  type Row,
  ratesOf,
  timed,
} from '#scripts/bench/measure.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { answerBytes } from '#shared/attempt/answer.ts';
import type { AttemptKey } from '#shared/attempt/attempt.ts';
import { attemptEvent, saveAnswerMetadata } from '#shared/attempt/events.ts';

const EXAM = 'bench-save';
const QUESTIONS = 40;
const AT_ONCE = 16;
const RATE_ROUND_MS = 2_000;
/** Events in the document of the cheapest command: the mean of a tail between two rolls. */
const EVENTS = 30;

/** Saves answer number `n` of one attempt and returns the milliseconds that count. */
type Saver = (n: number) => Promise<number>;

/** Measures a save through the real front door against its single MongoDB command, and against the cheapest possible one. */
export const measureSaveAnswer: Measure = async (context) => {
  const stage = await openStage(context, ['web']);
  try {
    const client = await stage.connect();
    const saver = async (student: string, open: (attempt: AttemptKey) => Saver) =>
      open({ _id: await startOverHttp(client, EXAM, student), studentId: student });
    const http = await saver('student-http', ({ _id }) => overHttp(client, _id, 'student-http'));
    const command = await saver('student-command', (attempt) => byOwnCommand(stage.mongo, attempt));
    const cheapest = await saver('student-cheapest', ({ _id }) => byCheapestCommand(stage.mongo, _id));
    const rounds = context.quick ? 60 : 400;
    const against = (reference: Saver) => {
      const numbers = [0, 0] as [number, number];
      const sides = { ours: () => http(numbers[0]++), reference: () => reference(numbers[1]++) };
      return alternate(context, { ...sides, rounds, warmUp: 80 });
    };
    const [ofCommand, ofCheapest] = [await against(command), await against(cheapest)];
    client.close();
    const name = 'save-answer over HTTP';
    return [
      {
        name,
        unit: 'ms',
        against: 'the same single MongoDB command',
        ours: figuresOf(ofCommand.ours),
        reference: figuresOf(ofCommand.reference),
        aim: { side: 'most', ratio: 1.3 },
        notes: [
          'one kept-alive connection, 40 questions; the p99 of ours includes the saves that move events out of the attempt',
        ],
      },
      {
        name: `${name} (2)`,
        unit: 'ms',
        against: 'the cheapest command, one updateOne',
        ours: figuresOf(ofCheapest.ours),
        reference: figuresOf(ofCheapest.reference),
        aim: { side: 'most', ratio: 1.25 },
        notes: [
          'the cheapest command sets the answer, pushes the event and increments the counters; it checks nothing and returns nothing',
        ],
      },
      await rateOfSaves(context, stage),
    ];
  } finally {
    await stage.close();
  }
};

function overHttp(client: HttpClient, attemptId: string, student: string): Saver {
  const headers = studentHeaders(student);
  return (n) => {
    const body = JSON.stringify(answerBody(n % QUESTIONS, n % 3 === 0));
    return timed(async () => {
      const reply = await client.request('POST', `/v1/attempts/${attemptId}/answers`, headers, body);
      if (reply.status !== 200) throw new Error(`save: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
    });
  };
}

/** Saves with the product's own command. The events that leave the tail are copied without timing. */
function byOwnCommand(mongo: Mongo, attempt: AttemptKey): Saver {
  const [paper, tails] = [benchPaper(), openEventTails(mongo)];
  return async (n) => {
    const paperIndex = n % QUESTIONS;
    const content = contentOf(paper, paperIndex, n % 3 === 0);
    const write: AnswerWrite = {
      attempt,
      paperIndex,
      content,
      bytes: answerBytes(content),
      clientVersion: 0,
      metadata: (serverVersion) => saveAnswerMetadata({ ...metadataOf(paperIndex), serverVersion }),
    };
    let result: Awaited<ReturnType<typeof saveAnswer>> | undefined;
    const ms = await timed(async () => {
      result = await saveAnswer(mongo, write, { movedTo: tails.movedTo(attempt._id) });
    });
    if (result?.kind !== 'saved') throw new Error('the save was refused');
    tails.seen(result.stored.tail());
    await tails.idle();
    return ms;
  };
}

const metadataOf = (index: number) => ({ questionId: `toan-${index + 1}`, clientVersion: 0, sourceTabId: null });

/** Saves with the cheapest command that could do the work on a document of the same size. */
function byCheapestCommand(mongo: Mongo, attemptId: string): Saver {
  const paper = benchPaper();
  return (n) => {
    const paperIndex = n % QUESTIONS;
    const content = contentOf(paper, paperIndex, n % 3 === 0);
    const about = { clientVersion: 0, bytes: answerBytes(content), isCorrect: null, score: null };
    const answer = { ...content, ...about, serverVersion: n + 1, updatedAt: new Date() };
    const event = attemptEvent(n + 2, 'SAVE_ANSWER', { ...metadataOf(paperIndex), serverVersion: n + 1 }, new Date());
    return timed(() =>
      attempts(mongo).updateOne(
        { _id: attemptId },
        {
          $set: { [`answers.q${paperIndex}`]: answer, stamp: randomBytes(8).toString('base64url') },
          $push: { events: { $each: [event], $slice: -EVENTS } },
          $inc: { eventSeq: 1, answerBytes: 0, 'tally.answers': 0 },
        },
      ),
    );
  };
}

/** Counts the saves of many students at once, over HTTP and by the cheapest command. */
async function rateOfSaves(context: BenchContext, stage: Stage): Promise<Row> {
  const [clients, http, bare]: [HttpClient[], Saver[], Saver[]] = [[], [], []];
  for (let n = 0; n < AT_ONCE; n++) {
    const client = await stage.connect();
    clients.push(client);
    http.push(overHttp(client, await startOverHttp(client, EXAM, `student-rate-${n}`), `student-rate-${n}`));
    bare.push(byCheapestCommand(stage.mongo, await startOverHttp(client, EXAM, `student-bare-${n}`)));
  }
  const [ours, reference] = [() => ratePerSecond(http, context.quick), () => ratePerSecond(bare, context.quick)];
  const rates = await alternate(context, { ours, reference, rounds: context.quick ? 1 : 6, warmUp: 1 });
  for (const client of clients) client.close();
  return {
    name: `saves, ${AT_ONCE} at once`,
    unit: '/s',
    against: 'the cheapest command, one updateOne',
    ours: ratesOf(rates.ours),
    reference: ratesOf(rates.reference),
    aim: null,
    notes: [
      'one front door, its database and the students share the cores; each student has an attempt and a connection',
    ],
  };
}

async function ratePerSecond(savers: readonly Saver[], quick: boolean): Promise<number> {
  const [from, endsAt] = [performance.now(), performance.now() + (quick ? RATE_ROUND_MS / 8 : RATE_ROUND_MS)];
  let done = 0;
  await Promise.all(
    savers.map(async (save) => {
      for (let n = 0; performance.now() < endsAt; n++, done++) await save(n);
    }),
  );
  return (done / (performance.now() - from)) * 1_000;
}
