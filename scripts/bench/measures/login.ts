import * as bcrypt from 'bcrypt';
import { readConfig } from '../../../shared/infra/config/config.ts';
import { alternate, timed } from '../alternate.ts';
import { figuresOf } from '../figures.ts';
import type { Ground, Measure } from '../ground.ts';
import type { HttpClient } from '../http-client.ts';
import type { Row } from '../row.ts';
import { openStage } from '../stage.ts';

const PASSWORD = 'sông hương núi ngự';
const CLIENTS = 8;

/** A login against nothing but the comparison of its hash, a refresh by itself, and what one front door's processor allows. */
export const measureLogin: Measure = async (ground) => {
  const stage = await openStage(ground, ['web']);
  try {
    const client = await stage.connect();
    const { passwordCost } = readConfig({ MONGODB_URL: ground.mongodbUrl }).auth.bcrypt;
    const hash = await bcrypt.hash(PASSWORD, passwordCost);
    await registered(client, 'an@truong.example');
    const { ours, reference } = await alternate({
      ours: () => timed(() => login(client, 'an@truong.example')),
      reference: () => timed(() => bcrypt.compare(PASSWORD, hash)),
      ...{ rounds: ground.quick ? 5 : 30, warmUp: 2, step: (done, of) => ground.progress.step(done, of) },
    });
    return [
      {
        ...{ name: 'login over HTTP', unit: 'ms', ours: figuresOf(ours), reference: figuresOf(reference) },
        ...{ against: `bcrypt.compare alone, cost ${passwordCost}`, aim: { side: 'most', ratio: 1.05 } },
        notes: ['unknown e-mails and wrong passwords take the same hash'],
      },
      await refreshes(ground, client),
      await crowd(ground, await Promise.all(Array.from({ length: CLIENTS }, () => stage.connect()))),
    ];
  } finally {
    await stage.close();
  }
};

async function refreshes(ground: Ground, client: HttpClient): Promise<Row> {
  let token = (await registered(client, 'binh@truong.example')).refreshToken;
  const samples: number[] = [];
  const rounds = ground.quick ? 20 : 200;
  for (let round = -5; round < rounds; round++) {
    const ms = await timed(async () => {
      token = (await post(client, 'refresh', { refreshToken: token })).refreshToken;
    });
    if (round >= 0) samples.push(ms);
  }
  return {
    ...{ name: 'refresh over HTTP', unit: 'ms', ours: figuresOf(samples), reference: null, against: '–', aim: null },
    notes: ['three reads, two bcrypt hashes of the token’s own cost, and one transaction of three writes'],
  };
}

async function crowd(ground: Ground, clients: readonly HttpClient[]): Promise<Row> {
  const each = ground.quick ? 2 : 8;
  const rates: number[] = [];
  for (let round = 0; round < 3; round++) {
    const ms = await timed(() =>
      Promise.all(
        clients.map(async (client) => {
          for (let n = 0; n < each; n++) await login(client, 'an@truong.example');
        }),
      ),
    );
    rates.push((clients.length * each * 1_000) / ms);
  }
  return {
    ...{ name: `logins, ${clients.length} at once`, unit: '/s', ours: figuresOf(rates), reference: null },
    ...{ against: 'one front door; hashes run beside its event loop', aim: null, notes: [] },
  };
}

interface Tokens {
  refreshToken: string;
}

function registered(client: HttpClient, email: string): Promise<Tokens> {
  return post(client, 'register', { email, password: PASSWORD, fullName: 'Nguyễn Văn An' });
}

function login(client: HttpClient, email: string): Promise<Tokens> {
  return post(client, 'login', { email, password: PASSWORD });
}

async function post(client: HttpClient, path: string, body: object): Promise<Tokens> {
  const reply = await client.request('POST', `/v1/auth/${path}`, {}, JSON.stringify(body));
  if (reply.status > 201) throw new Error(`${path}: ${reply.status} ${reply.body.toString().slice(0, 500)}`);
  return JSON.parse(reply.body.toString()).data;
}
