import { createHash } from 'node:crypto';
import type { Document } from 'mongodb';
import type { Mongo } from '#infra/mongo/connect.ts';
import type { Behaviour } from './scratch.ts';

/** A server, as it describes itself. */
export interface Server {
  /** The version of MongoDB that the server reports. Servers that only implement the protocol report one too. */
  version: string;
  /** The version and a digest of the server's whole build report. Different programs have different values. */
  build: string;
  /** The kind of deployment, in words for an operator. */
  topology: string;
  /** The server's time in Unix milliseconds. */
  now: number;
}

/** The oldest major version on which the product is tested. */
const MIN_VERSION = 7;

/** Reads how the server describes itself. */
export async function readServer(mongo: Mongo): Promise<Server> {
  const { ok, operationTime, $clusterTime, ...build } = await mongo.db.admin().command({ buildInfo: 1 });
  const { topology, now } = await readTopology(mongo);
  const version = String(build.version);
  const digest = createHash('sha256').update(JSON.stringify(build)).digest('hex').slice(0, 16);
  return { version, build: `${version} ${digest}`, topology, now };
}

/** Returns whether the client talks to a router of a sharded cluster. */
export async function isRouter(mongo: Mongo): Promise<boolean> {
  return (await readTopology(mongo)).topology === SHARDED;
}

async function readTopology(mongo: Mongo): Promise<Pick<Server, 'topology' | 'now'>> {
  const hello = await mongo.client.db('admin').command({ hello: 1 });
  const now = hello.localTime instanceof Date ? hello.localTime.getTime() : Date.now();
  return { topology: topologyOf(hello), now };
}

const SHARDED = 'sharded cluster';

function topologyOf(hello: Document): string {
  if (hello.msg === 'isdbgrid') return SHARDED;
  return typeof hello.setName === 'string' ? `replica set ${hello.setName}` : 'standalone server';
}

/** Requirements that are checked against the server's own report. */
export const SERVER: readonly Behaviour[] = [
  {
    name: 'server',
    breaks:
      'Transactions and sessions need a replica set or a sharded cluster, and the product is tested on MongoDB 7 and 8.',
    async fault({ mongo }) {
      const { version, topology } = await readServer(mongo);
      if (topology === 'standalone server')
        return 'the server is neither a member of a replica set nor a router of a sharded cluster';
      const major = Number.parseInt(version, 10);
      return major >= MIN_VERSION ? undefined : `its version, ${version}, is older than ${MIN_VERSION}.0`;
    },
  },
];
