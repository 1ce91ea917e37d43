import { saveOneAnswer } from '#api/attempt/save-answer.ts';
import { type AnswerWrite, saveAnswer, saveAnswerWithRows } from '#infra/mongo/attempt/save-answer.ts';
import { openMongo } from '#infra/mongo/connect.ts';
import { alternate, timed } from '#scripts/bench/alternate.ts';
import { coldFrontDoor, countCommands, studentCall } from '#scripts/bench/cold-front-door.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import { answerBody, benchPaper, contentOf, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import { figuresOf } from '#scripts/bench/row.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';
import { answerBytes } from '#shared/attempt/answer.ts';
import { saveAnswerMetadata } from '#shared/attempt/events.ts';
import { isRejection } from '#shared/kernel/errors.ts';

const EXAM = 'bench-save';
const COUNTED_SAVES = 200;

/** Measures a save through the real front door against its single MongoDB command in a bare loop. */
export const measureSaveAnswer: Measure = async (context) => {
  const stage = await openStage(context, ['web']);
  try {
    const client = await stage.connect();
    const [saved, bare] = [
      await startOverHttp(client, EXAM, 'student-http'),
      await startOverHttp(client, EXAM, 'student-bare'),
    ];
    const headers = studentHeaders('student-http');
    const paper = benchPaper();
    let [httpSaves, bareSaves] = [0, 0];

    async function ours(): Promise<number> {
      const index = httpSaves++;
      const body = JSON.stringify(answerBody(index % 40, index % 3 === 0));
      return timed(async () => {
        const reply = await client.request('POST', `/v1/attempts/${saved}/answers`, headers, body);
        if (reply.status !== 200) throw new Error(`save: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
      });
    }
    async function reference(): Promise<number> {
      const index = bareSaves++;
      const content = contentOf(paper, index % 40, index % 3 === 0);
      const write: AnswerWrite = {
        attemptId: bare,
        paperIndex: index % 40,
        content,
        bytes: answerBytes(content),
        clientVersion: 0,
        metadata: (serverVersion) =>
          saveAnswerMetadata({
            questionId: `toan-${(index % 40) + 1}`,
            serverVersion,
            clientVersion: 0,
            sourceTabId: null,
          }),
      };
      let done = false;
      const ms = await timed(async () => {
        done = (await saveAnswer(stage.mongo, write)).kind === 'saved';
      });
      if (done) return ms;
      // The event tail is full. Roll it without timing, so that both documents stay equally large.
      await saveAnswerWithRows(stage.mongo, write, 5_000, Date.now);
      return reference();
    }

    const rounds = context.quick ? 60 : 600;
    const { step } = context.progress;
    const samples = await alternate({ ours, reference, rounds, warmUp: 80, step });
    client.close();
    return [
      {
        name: 'save-answer over HTTP',
        unit: 'ms',
        against: 'the same single MongoDB command',
        ours: figuresOf(samples.ours),
        reference: figuresOf(samples.reference),
        aim: { side: 'most', ratio: 1.3 },
        notes: [
          'one kept-alive connection, 40 questions; the p99 of ours includes the saves that move events out of the attempt',
          await commandsOfSaves(context, stage),
        ],
      },
    ];
  } finally {
    await stage.close();
  }
};

/** Returns a sentence with the number of MongoDB commands that saves take, from the first save of a cold front door on. */
async function commandsOfSaves(context: BenchContext, stage: Stage): Promise<string> {
  const client = await stage.connect();
  const attemptId = await startOverHttp(client, EXAM, 'student-counted');
  client.close();
  const mongo = openMongo({ url: context.mongodbUrl, database: stage.database, appName: 'examhall-bench-count' });
  try {
    const sent = countCommands(mongo);
    const deps = coldFrontDoor(mongo);
    const perSave: number[] = [];
    for (let save = 0; save <= COUNTED_SAVES; save++) {
      const call = studentCall('student-counted', { body: answerBody(save % 40, true), params: { attemptId } });
      const reply = await saveOneAnswer(deps, call as never);
      if (isRejection(reply)) throw new Error(`save: ${reply.rejected}`);
      perSave.push(sent.taken().length);
    }
    const [cold = 0, ...warm] = perSave;
    const more = warm.filter((commands) => commands > 1);
    const total = warm.reduce((sum, commands) => sum + commands, 0);
    return (
      `MongoDB commands: ${cold} for the first save of a cold process, then ${total} for ${warm.length} warm ones. ` +
      `Most of these (${warm.length - more.length}) take one command; ${more.length} move events and take ${Math.max(0, ...more)}`
    );
  } finally {
    await mongo.close();
  }
}
