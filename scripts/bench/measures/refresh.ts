import { readConfig } from '#infra/config/config.ts';
import { type Hasher, openHasher } from '#infra/passwords/hasher.ts';
import { alternate, timed } from '#scripts/bench/alternate.ts';
import { openBareRefresh } from '#scripts/bench/bare-refresh.ts';
import type { BenchContext, Measure } from '#scripts/bench/context.ts';
import type { HttpClient } from '#scripts/bench/http-client.ts';
import { figuresOf, type Row, ratesOf } from '#scripts/bench/row.ts';
import { getSession, openBetterAuth, PASSWORD, refresh, register, signUp } from '#scripts/bench/sign-in.ts';
import { openStage, type Stage } from '#scripts/bench/stage.ts';

const CROWD = 8;

/** Refreshes over a connection, each time with the token of the previous refresh. */
type Refresher = (client: HttpClient) => Promise<void>;

/** A server and the users who are signed in there. */
interface Side {
  connect(): Promise<HttpClient>;
  people: readonly Refresher[];
}

/**
 * Measures a refresh against better-auth's nearest operation. Its sessions have no refresh token: the session's token stays the same, and
 * `get-session` extends the session, here at every call. With the JWT plugin, `get-session` also returns a signed access token, as a
 * refresh does.
 */
export const measureRefresh: Measure = async (context) => {
  const costs = readConfig({ MONGODB_URL: context.mongodbUrl }, 'web').auth.bcrypt;
  const { passwordCost } = costs;
  const stage = await openStage(context, ['web']);
  try {
    const rival = await openBetterAuth(context, { database: `${stage.database}_rival`, passwordCost });
    try {
      const ours = await sideOf(stage, signedIn);
      const moved = await sideOf(rival, (client, email) => rivalSignedIn(client, email, '/plain'));
      const signed = await sideOf(rival, (client, email) => rivalSignedIn(client, `jwt-${email}`, '/signed'));
      return [
        await duel(context, ours, signed, {
          name: 'refresh over HTTP',
          against: 'better-auth, session extended, JWT',
          aim: null,
          notes: [
            'ours takes three reads, one transaction of three writes, two signatures and two bcrypt hashes of the token’s own cost. The first ' +
              'hash checks the presented token, the second stores its successor',
            'better-auth has no refresh token in its core. Its clients call get-session with the JWT plugin, which extends the session and ' +
              'returns a new access token. Here every call writes the session. The session’s token stays the same and is stored in plain text',
          ],
        }),
        await duel(context, ours, moved, {
          name: 'refresh over HTTP (2)',
          against: 'better-auth, session extended',
          aim: null,
          notes: [
            'the same without the plugin: two reads and a write, no access token and no hash; its cheapest operation',
          ],
        }),
        await against(context, stage, ours, openHasher({ ...costs, concurrency: 2 })),
        await crowd(context, ours, moved),
      ];
    } finally {
      await rival.close();
    }
  } finally {
    await stage.close();
  }
};

async function sideOf(
  { connect }: Pick<Side, 'connect'>,
  open: (client: HttpClient, email: string) => Promise<Refresher>,
): Promise<Side> {
  const client = await connect();
  const people: Refresher[] = [];
  for (let n = 0; n < CROWD; n++) people.push(await open(client, `binh-${n}@truong.example`));
  client.close();
  return { connect, people };
}

async function signedIn(client: HttpClient, email: string): Promise<Refresher> {
  let { refreshToken } = await register(client, email);
  return async (connection) => {
    refreshToken = (await refresh(connection, refreshToken)).refreshToken;
  };
}

async function rivalSignedIn(client: HttpClient, email: string, base: '/plain' | '/signed'): Promise<Refresher> {
  const token = await signUp(client, { email, password: PASSWORD });
  return (connection) => getSession(connection, base, token);
}

async function duel(
  context: BenchContext,
  ours: Side,
  rival: Side,
  row: Pick<Row, 'name' | 'against' | 'aim' | 'notes'>,
): Promise<Row> {
  const [first, second] = [ours.people[0] as Refresher, rival.people[0] as Refresher];
  const [client, rivalClient] = await Promise.all([ours.connect(), rival.connect()]);
  const samples = await alternate({
    ours: () => timed(() => first(client)),
    reference: () => timed(() => second(rivalClient)),
    rounds: context.quick ? 50 : 300,
    warmUp: context.quick ? 10 : 50,
    step: context.progress.step,
  });
  client.close();
  rivalClient.close();
  return { ...row, unit: 'ms', ours: figuresOf(samples.ours), reference: figuresOf(samples.reference) };
}

/** Measures a refresh against its own MongoDB commands and hashes, made by the bench without a front door. */
async function against(context: BenchContext, stage: Stage, ours: Side, hasher: Hasher): Promise<Row> {
  const [first] = ours.people;
  const client = await ours.connect();
  const bare = openBareRefresh(stage.mongo, hasher, (await register(client, 'chi@truong.example')).refreshToken);
  const samples = await alternate({
    ours: () => timed(async () => first?.(client)),
    reference: () => bare.next(),
    rounds: context.quick ? 50 : 300,
    warmUp: context.quick ? 10 : 50,
    step: context.progress.step,
  });
  client.close();
  return {
    name: 'refresh over HTTP (3)',
    unit: 'ms',
    against: 'its own MongoDB commands and hashes',
    aim: { side: 'most', ratio: 1.2 },
    ours: figuresOf(samples.ours),
    reference: figuresOf(samples.reference),
    notes: [bare.partsText()],
  };
}

async function crowd(context: BenchContext, ours: Side, rival: Side): Promise<Row> {
  const each = context.quick ? 10 : 40;
  async function perSecond({ connect, people }: Side): Promise<number> {
    // New connections each time: a front door closes idle ones while the other side has its turn.
    const clients = await Promise.all(people.map(() => connect()));
    const ms = await timed(() =>
      Promise.all(
        people.map(async (next, n) => {
          for (let done = 0; done < each; done++) await next(clients[n] as HttpClient);
        }),
      ),
    );
    for (const client of clients) client.close();
    return (people.length * each * 1_000) / ms;
  }
  const rates = await alternate({
    ours: () => perSecond(ours),
    reference: () => perSecond(rival),
    rounds: context.quick ? 2 : 6,
    warmUp: 1,
    step: context.progress.step,
  });
  return {
    name: `refreshes, ${CROWD} at once`,
    unit: '/s',
    against: 'better-auth, session extended',
    aim: null,
    ours: ratesOf(rates.ours),
    reference: ratesOf(rates.reference),
    notes: ['one front door and its database on the same cores'],
  };
}
