import { timed } from '#scripts/bench/alternate.ts';
import { startChild } from '#scripts/bench/child.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import { answerBody, startOverHttp, studentHeaders } from '#scripts/bench/exam.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import { processorMs } from '#scripts/bench/processor.ts';
import { type Figures, quantile, type Row } from '#scripts/bench/row.ts';
import { PASSWORD, register } from '#scripts/bench/sign-in.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';

const EXAM = 'bench-strangers';
const EMAIL = 'an@truong.example';
const HALF_SENT = 2_000;
const LOGINS_PER_SECOND = 200;
const SAVES_PER_SUBMIT = 8;
const SUBMITS_PER_LOGIN = 3;

const HOW = [
  'the first figure is the 95th percentile, not the median, and the ratio compares it',
  `${HALF_SENT} half-sent logins stand, and strangers send ${LOGINS_PER_SECOND} wrong logins a second, both from 20 addresses`,
  'the attack has a low priority, because attackers have machines of their own',
  'front door, worker, database, attack and caller share the cores: on a machine with other work the ratio shows that work as well',
];

/** Times (ms) of each operation. */
interface Samples {
  save: number[];
  submit: number[];
  login: number[];
}

/** Measures what people inside and a known pair notice of strangers who attack the same front door. */
export const measureStrangers: Measure = async (context) => {
  const stage = await openStage(context, ['web', 'grading'], { TRUSTED_PROXIES: '127.0.0.1' });
  try {
    const people = await stage.connect();
    await register(people, EMAIL);
    const quiet: Samples = { save: [], submit: [], login: [] };
    const attacked: Samples = { save: [], submit: [], login: [] };
    const busy: number[] = [];
    const [blocks, rounds] = context.quick ? [1, 4] : [3, 8];
    await sit(people, rounds, { save: [], submit: [], login: [] });
    for (let block = 0; block < blocks; block++) {
      await sit(people, rounds, quiet);
      const attack = await startAttack(context, stage);
      const [from, spent] = [performance.now(), frontDoorMs(stage)];
      await sit(people, rounds, attacked);
      busy.push((frontDoorMs(stage) - spent) / (performance.now() - from));
      await attack.stop();
      context.progress.step(block + 1, blocks);
    }
    people.close();
    const share = Math.round((busy.reduce((sum, one) => sum + one, 0) / busy.length) * 100);
    return [
      rowOf('save beside strangers', quiet.save, attacked.save, [
        ...HOW,
        ...(Number.isNaN(share)
          ? []
          : [`while attacked, the front door used ${share} % of one processor, its hashes included`]),
      ]),
      rowOf('submit → graded beside strangers', quiet.submit, attacked.submit, ['as for the saves']),
      rowOf('login of a known pair beside strangers', quiet.login, attacked.login, ['as for the saves']),
    ];
  } finally {
    await stage.close();
  }
};

/** Returns the processor time of the front door so far (ms). */
function frontDoorMs({ processes }: Stage): number {
  return processorMs(processes.get('web')?.pid);
}

function startAttack({ folder }: BenchContext, { port }: Stage) {
  const env = {
    ...process.env,
    PORT: String(port),
    HALF_SENT: String(HALF_SENT),
    LOGINS_PER_SECOND: String(LOGINS_PER_SECOND),
  };
  const args = ['scripts/bench/servers/strangers.ts'];
  return startChild({ name: 'strangers', args, env, readyWhen: 'bench attack has begun', folder });
}

/** Saves, submits and signs in, one after the other, and adds the times to `samples`. @throws Error for a refusal */
async function sit(people: HttpClient, rounds: number, samples: Samples): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (let n = 0; n < SUBMITS_PER_LOGIN; n++) {
      const id = `student-${process.hrtime.bigint()}`;
      const attempt = `/v1/attempts/${await startOverHttp(people, EXAM, id)}`;
      for (let index = 0; index < SAVES_PER_SUBMIT; index++) {
        const body = answerBody(index, index % 2 === 0);
        samples.save.push(await post(people, `${attempt}/answers`, studentHeaders(id), body));
      }
      samples.submit.push(await post(people, `${attempt}/submit`, studentHeaders(id), {}));
    }
    const school = { 'x-forwarded-for': '198.51.100.7' };
    samples.login.push(await post(people, '/v1/auth/login', school, { email: EMAIL, password: PASSWORD }));
  }
}

function post(people: HttpClient, path: string, headers: Record<string, string>, body: object): Promise<number> {
  return timed(async () => {
    const reply = await people.request('POST', path, headers, JSON.stringify(body));
    if (reply.status !== 200) throw new Error(`${path}: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  });
}

function rowOf(name: string, quiet: readonly number[], attacked: readonly number[], notes: readonly string[]): Row {
  return {
    name,
    unit: 'ms',
    against: 'the same without strangers',
    aim: { side: 'most', ratio: 2 },
    ours: figuresOf(attacked),
    reference: figuresOf(quiet),
    notes,
  };
}

function figuresOf(samples: readonly number[]): Figures {
  return { p50: quantile(samples, 0.95), p99: quantile(samples, 0.99) };
}
