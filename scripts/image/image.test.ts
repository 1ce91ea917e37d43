import { execFileSync, spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';

const ROOT = path.resolve(import.meta.dirname, '../..');
const RUN = path.join(ROOT, 'deploy/run');

t.test('the image has the pinned Node, no root, and one entry point for every process type', async (t) => {
  const version = readFileSync(path.join(ROOT, '.nvmrc'), 'utf8').trim();
  const dockerfile = readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8');
  t.match(dockerfile, `\nARG NODE_VERSION=${version}\n`);
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the variables of a Dockerfile
  const base = 'node:${NODE_VERSION}-slim${NODE_DIGEST}';
  const [, build = '', last = '', ...others] = dockerfile.split(/^FROM /m);
  t.strictSame(others, []);
  for (const stage of [build, last]) {
    t.match(stage.split(/\s/, 1), [base], 'one digest pins the base of every stage');
    t.strictSame(stage.match(/^USER .*/gm), ['USER 1000:1000'], 'a number, so that a platform can verify it');
  }
  t.match(build, /^RUN npm ci --omit=dev /m);
  t.strictSame(last.match(/^(COPY|ADD|RUN) .*/gm), ['COPY --from=build --chown=0:0 /home/node/app /app']);
  t.match(last, /^ENV NODE_ENV=production METRICS_PORT=9464$/m);
  t.match(last, /^HEALTHCHECK .* CMD \["node", "deploy\/health\.mjs"\]$/m);
  t.match(last, /^ENTRYPOINT \["\/app\/deploy\/run"\]\nCMD \["web"\]$/m);
});

t.test('.dockerignore admits what runs, and no test, secret, document or installed package', async (t) => {
  const rules = readFileSync(path.join(ROOT, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => /^[^#]/.test(line));
  t.strictSame([rules.at(0), rules.at(-1)], ['*', '**/*.test.ts']);
  const admitted = rules.slice(1, -1).map((line) => line.replace(/^!/, ''));
  const folders = ['api', 'schemas', 'scripts/examhall', 'shared', 'workers'];
  t.strictSame(
    admitted.filter((name) => statSync(path.join(ROOT, name)).isDirectory()),
    folders,
  );
  const sources = globSync(
    admitted.map((name) => (name.endsWith('.ts') ? name : `${name}/**/*.ts`)),
    { cwd: ROOT },
  );
  t.ok(sources.length > 300);
  for (const file of sources.filter((name) => !name.endsWith('.test.ts'))) {
    const source = readFileSync(path.join(ROOT, file), 'utf8');
    for (const [, script = ''] of source.matchAll(/ from '#(scripts\/[^']+)'/g))
      t.ok(
        admitted.some((name) => script === name || script.startsWith(`${name}/`)),
        `${file} imports ${script}`,
      );
  }
});

/** Runs `deploy/run` with a `node` that prints its arguments, or what `script` prints. */
function arguments_(
  t: { teardown(work: () => void): void },
  args: readonly string[],
  { env: more = {}, script = 'printf "%s\\n" "$@"' }: { env?: NodeJS.ProcessEnv; script?: string } = {},
) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-run-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, 'bin'));
  writeFileSync(path.join(folder, 'bin/node'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  symlinkSync(RUN, path.join(folder, 'run'));
  const env = { ...more, PATH: `${folder}/bin:/usr/bin:/bin` };
  const { status, stdout, stderr } = spawnSync('sh', [path.join(folder, 'run'), ...args], { env, encoding: 'utf8' });
  return { status, words: stdout.trim().split('\n'), stderr };
}

t.test('deploy/run starts the command of the Procfile with the permissions of Node', async (t) => {
  const { words } = arguments_(t, ['grading']);
  t.ok(words.includes('--permission'));
  t.strictSame(words.slice(-4), ['--import', './compile-cache.mjs', 'workers/main.ts', 'grading']);
  t.strictSame(arguments_(t, ['grading-2']).words, words, 'a number distinguishes processes of one machine');
  t.strictSame(arguments_(t, ['node', ...words.slice(-4)]).words, words, 'platforms pass the command itself');
  t.equal(arguments_(t, []).words.at(-1), 'api/main.ts');
  t.strictSame(
    words.filter((word) => word.startsWith('--allow-fs-write=')),
    [`--allow-fs-write=${ROOT}/node_modules/.cache/compiled`],
  );
  for (const word of words) t.notMatch(word, /^--allow-(child-process|inspector|wasi)|=\*$|=\/(proc\/self\/?)?$/);
});

t.test('deploy/run permits threads to workers alone', async (t) => {
  const threads = (...args: string[]) => arguments_(t, args).words.includes('--allow-worker');
  t.ok(threads('grading'));
  t.ok(threads('node', 'workers/main.ts', 'upkeep'));
  for (const args of [['web'], ['release'], ['examhall', 'status'], ['node', 'api/main.ts']])
    t.notOk(threads(...args), args.join(' '));
});

t.test('deploy/run passes a port on, and no empty one, which Dokku sets for workers', async (t) => {
  for (const name of ['PORT', 'METRICS_PORT']) {
    const portOf = (env: NodeJS.ProcessEnv) =>
      arguments_(t, ['grading'], { env, script: `printenv ${name} || echo none` }).words;
    t.strictSame(portOf({}), ['none'], name);
    t.strictSame(portOf({ [name]: '' }), ['none'], name);
    t.strictSame(portOf({ [name]: '3001' }), ['3001'], name);
  }
});

t.test('deploy/run lets Node read the folder of credentials that the platform has mounted', async (t) => {
  const readable = (env: NodeJS.ProcessEnv) =>
    arguments_(t, ['grading'], { env }).words.filter((word) => word.startsWith('--allow-fs-read=/run/'));
  t.strictSame(readable({}), ['--allow-fs-read=/run/secrets/*']);
  t.strictSame(readable({ CREDENTIALS_DIRECTORY: '/run/credentials/examhall@web.service' }), [
    '--allow-fs-read=/run/secrets/*',
    '--allow-fs-read=/run/credentials/examhall@web.service/*',
  ]);
});

t.test('deploy/run runs the tool of the operator, which may use files below /work', async (t) => {
  const { words } = arguments_(t, ['examhall', 'person', 'export', 'two words']);
  t.strictSame(words.slice(-4), ['scripts/examhall.ts', 'person', 'export', 'two words']);
  t.ok(words.includes('--allow-fs-write=/work/*'));
});

t.test('deploy/run refuses an unknown process type and lists the known ones', async (t) => {
  for (const type of ['grade', 'web!', '.*', 'web/../x', '-c']) {
    const { status, stderr, words } = arguments_(t, [type]);
    t.equal(status, 2, type);
    t.match(stderr, /^error: ".*" is no process type; expected one of: release web grading /);
    t.strictSame(words, ['']);
  }
});

t.test('the shell scripts of the image are valid for a POSIX shell', async (t) => {
  for (const name of ['run', 'prune']) execFileSync('sh', ['-n', path.join(ROOT, 'deploy', name)]);
  t.end();
});
