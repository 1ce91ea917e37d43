import * as bcrypt from 'bcrypt';
import { readConfig } from '#infra/config/config.ts';
import {
  alternate,
  type BenchContext,
  figuresOf,
  type Measure,
  type Row,
  ratesOf,
  timed,
} from '#scripts/bench/measure.ts';
import { login, openBetterAuth, PASSWORD, register, signIn, signUp } from '#scripts/bench/sign-in.ts';
import { type HttpClient, openStage, type Stage } from '#scripts/bench/stage.ts';

const EMAIL = 'an@truong.example';
const CROWD = 8;

/** Measures a login against its bare hash comparison and against better-auth's, and the login rate of one front door. */
export const measureLogin: Measure = async (context) => {
  const { passwordCost } = readConfig({ MONGODB_URL: context.mongodbUrl }, 'web').auth.bcrypt;
  const stage = await openStage(context, ['web']);
  try {
    const rival = await openBetterAuth(context, { database: `${stage.database}_rival`, passwordCost });
    try {
      const [client, rivalClient] = await Promise.all([stage.connect(), rival.connect()]);
      const rivalAccount = { email: EMAIL, password: PASSWORD };
      await Promise.all([register(client, EMAIL), signUp(rivalClient, rivalAccount)]);
      const hash = await bcrypt.hash(PASSWORD, passwordCost);
      const rounds = { rounds: context.quick ? 5 : 40, warmUp: 2 };

      const bare = await alternate(context, {
        ours: () => timed(() => login(client, EMAIL)),
        reference: () => timed(() => bcrypt.compare(PASSWORD, hash)),
        ...rounds,
      });
      const rivals = await alternate(context, {
        ours: () => timed(() => login(client, EMAIL)),
        reference: () => timed(() => signIn(rivalClient, rivalAccount)),
        ...rounds,
      });
      return [
        {
          name: 'login over HTTP',
          unit: 'ms',
          aim: { side: 'most', ratio: 1.06 },
          ours: figuresOf(bare.ours),
          reference: figuresOf(bare.reference),
          against: `bcrypt.compare alone, cost ${passwordCost}`,
          notes: ['unknown e-mails and wrong passwords take the same hash'],
        },
        {
          name: 'login over HTTP (2)',
          unit: 'ms',
          aim: null,
          ours: figuresOf(rivals.ours),
          reference: figuresOf(rivals.reference),
          against: 'better-auth’s e-mail sign-in',
          notes: [
            `better-auth runs on the same MongoDB without rate limits and hashes passwords with the same bcrypt at cost ${passwordCost}. ` +
              'Ours also counts the login attempt, stores a bcrypt hash of the refresh token and returns a signed access token',
          ],
        },
        await crowd(context, stage, hash),
      ];
    } finally {
      await rival.close();
    }
  } finally {
    await stage.close();
  }
};

/** Measures enough concurrent logins to keep every thread busy, against the same number of hashes without a server. */
async function crowd(context: BenchContext, stage: Stage, hash: string): Promise<Row> {
  const each = context.quick ? 2 : 8;
  async function perSecond(work: (n: number) => Promise<unknown>): Promise<number> {
    const ms = await timed(() =>
      Promise.all(
        Array.from({ length: CROWD }, async (_, n) => {
          for (let done = 0; done < each; done++) await work(n);
        }),
      ),
    );
    return (CROWD * each * 1_000) / ms;
  }
  async function logins(): Promise<number> {
    // New connections each time: a front door closes idle ones while the other side has its turn.
    const clients = await Promise.all(Array.from({ length: CROWD }, () => stage.connect()));
    const rate = await perSecond((n) => login(clients[n] as HttpClient, EMAIL));
    for (const client of clients) client.close();
    return rate;
  }
  const rates = await alternate(context, {
    ours: logins,
    reference: () => perSecond(() => bcrypt.compare(PASSWORD, hash)),
    rounds: context.quick ? 2 : 4,
    warmUp: 0,
  });
  return {
    name: `logins, ${CROWD} at once`,
    unit: '/s',
    aim: null,
    ours: ratesOf(rates.ours),
    reference: ratesOf(rates.reference),
    against: 'bare bcrypt on the same cores',
    notes: ['one front door and its database on the same cores; hashes run outside the event loop'],
  };
}
