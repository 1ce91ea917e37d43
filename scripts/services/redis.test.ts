import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { installedBinaries, packageFolder } from './python-tools.ts';
import { localRedis, PREBUILT_REDIS } from './redis.ts';

const skip = process.platform === 'linux' && process.arch === 'x64' ? false : 'has no prebuilt binary';
const [first, second] = PREBUILT_REDIS;
if (first === undefined || second === undefined) throw new Error('two prebuilt binaries are declared');

t.test('an installed binary is found without Python, the first one that runs', { skip }, async (t) => {
  const cache = t.testdir({});
  const install = ({ requirement, binary }: typeof first, exitCode: number) => {
    const server = path.join(packageFolder(cache, requirement), 'site', binary);
    mkdirSync(path.dirname(server), { recursive: true });
    writeFileSync(server, `#!/bin/sh\nexit ${exitCode}\n`);
    chmodSync(server, 0o755);
    return server;
  };
  const start = async () => {
    const redis = await localRedis({ env: { PATH: '/nowhere' }, cache, say: () => {} }, { folder: cache, port: 1 });
    return redis.launch?.command;
  };
  t.equal(installedBinaries(cache, second.requirement), undefined);
  await t.rejects(start(), /no Python 3 to fetch a binary/);
  const server = install(second, 0);
  t.equal(await start(), server);
  install(first, 1);
  t.equal(await start(), server, 'one that does not run is passed over');
});
