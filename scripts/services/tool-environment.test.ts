import t from 'tap';
import { buildEnvironment, pipEnvironment, pythonEnvironment, serverEnvironment } from './tool-environment.ts';

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
