import { setTimeout as delay } from 'node:timers/promises';
import { answerBody, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import { figuresOf, type Measure, type Row, timed } from '#scripts/bench/measure.ts';
import { type HttpClient, openStage } from '#scripts/bench/stage.ts';
import { openStream } from '#testing/clients/open-stream.ts';
import { until } from '#testing/until.ts';

const EXAM = 'bench-board';
const ADMIN = { 'X-User-Id': 'admin-1', 'X-User-Role': 'ADMIN' };
/** Students who start at the same time. */
const AT_ONCE = 16;
/** Saves of one turn, which last some three seconds in which the board is read three times. */
const TURN = { saves: 300, everyMs: 10 };

/** A save that a stream should show. */
interface Sent {
  attemptId: string;
  /** Time of its reply, on the clock of the caller. */
  at: number;
}

type BoardRow = { attemptId: string; lastSavedAt: string | null };

/** Measures how late a watched board shows a save while a whole school sits an exam, and whether saves wait longer for it. */
export const measureBoard: Measure = async (context) => {
  const { students, turns } = context.quick ? { students: 100, turns: 2 } : { students: 2_000, turns: 16 };
  const stage = await openStage(context, ['web']);
  const clients = await Promise.all(Array.from({ length: AT_ONCE }, stage.connect));
  const ends: (() => unknown)[] = [];
  try {
    const ids: string[] = [];
    await Promise.all(
      clients.map(async (client, first) => {
        for (let n = first; n < students; n += AT_ONCE) ids[n] = await startOverHttp(client, EXAM, `${EXAM}-${n}`);
      }),
    );

    const [gateway] = clients;
    if (gateway === undefined) throw new Error('no connection');
    const waits = { watched: [] as number[], alone: [] as number[] };
    const lags: number[] = [];
    let next = 0;
    for (let turn = 0; turn <= turns; turn++) {
      const isWatched = turn % 2 === 1;
      const watch = isWatched ? await watchBoard(stage.port, ends) : null;
      const { sent, waitedMs } = await saveFor(gateway, () => next++ % students, ids);
      // The first turn warms up the front door.
      if (turn > 0) waits[isWatched ? 'watched' : 'alone'].push(...waitedMs);
      if (watch !== null) lags.push(...(await watch.lagsOf(sent)));
      context.progress.reach(turn + 1, turns + 1);
    }
    return rowsOf(students, lags, waits);
  } finally {
    for (const end of ends) await end();
    for (const client of clients) client.close();
    await stage.close();
  }
};

/** Opens a stream of the board, and notes when it shows each attempt. */
async function watchBoard(port: number, ends: (() => unknown)[]) {
  const url = `http://127.0.0.1:${port}/v1/exams/${EXAM}/board/stream`;
  const stream = await openStream({ teardown: (work) => ends.push(work) }, url, ADMIN);
  await stream.next('snapshot');
  const since = Date.now();
  const shownAt = new Map<string, number>();
  stream.onEvent(({ event, data }) => {
    if (event !== 'rows') return;
    for (const { attemptId, lastSavedAt } of data.rows as BoardRow[]) {
      // A row also comes when its student has been silent for some time.
      if (Date.parse(lastSavedAt ?? '') >= since) shownAt.set(attemptId, performance.now());
    }
  });
  return {
    /** Returns how long after its reply each save was shown, once all are. Each attempt is saved once in a turn. */
    async lagsOf(sent: readonly Sent[]): Promise<number[]> {
      await until('the stream shows each save', () => sent.every(({ attemptId }) => shownAt.has(attemptId)));
      stream.close();
      return sent.map(({ attemptId, at }) => Math.max(0, (shownAt.get(attemptId) ?? 0) - at));
    },
  };
}

/** Sends the saves of one turn, one after another at fixed times. */
async function saveFor(gateway: HttpClient, nextStudent: () => number, ids: readonly string[]) {
  const sent: Sent[] = [];
  const waitedMs: number[] = [];
  const from = performance.now();
  for (let n = 0; n < Math.min(TURN.saves, ids.length); n++) {
    const student = nextStudent();
    const attemptId = ids[student] ?? '';
    const body = JSON.stringify(answerBody(n % 40, n % 2 === 0));
    await delay(Math.max(0, from + n * TURN.everyMs - performance.now()));
    const wait = async () => {
      const target = `/v1/attempts/${attemptId}/answers`;
      const reply = await gateway.request('POST', target, studentHeaders(`${EXAM}-${student}`), body);
      if (reply.status !== 200) throw new Error(`a save: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
    };
    waitedMs.push(await timed(wait));
    sent.push({ attemptId, at: performance.now() });
  }
  return { sent, waitedMs };
}

function rowsOf(students: number, lags: readonly number[], waits: Record<'watched' | 'alone', number[]>): Row[] {
  return [
    {
      name: `board of ${students} students: a save is shown`,
      unit: 'ms',
      ours: figuresOf(lags),
      reference: { p50: 2_000, p99: 2_000 },
      against: 'its aim',
      aim: { side: 'most', ratio: 1 },
      notes: [`the latest of ${lags.length} saves was shown after ${(Math.max(...lags) / 1_000).toFixed(2)} s`],
    },
    {
      name: 'saves while a board is watched',
      unit: 'ms',
      ours: figuresOf(waits.watched),
      reference: figuresOf(waits.alone),
      against: 'saves without a stream',
      aim: { side: 'most', ratio: 1.05 },
      notes: [`one save every ${TURN.everyMs} ms, each of another student, in turns with and without a stream`],
    },
  ];
}
