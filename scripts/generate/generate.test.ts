import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';
import { VARIABLES } from '#infra/config/variables.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { buildClient, compile } from '#scripts/generate/client.ts';
import { billOfMaterials } from '#scripts/sbom.ts';
import { ERRORS } from '#shared/kernel/errors.ts';
import { drift, generatedFiles } from './generate.ts';
import { configurationList, envExample, RETRY } from './lists.ts';

t.test('drift finds no difference in this tree, and reports changed, missing and superfluous files', async (t) => {
  const files = new Map(await generatedFiles(loadSchemas()));
  t.strictSame(drift(files), []);
  const types = files.get('shared/generated/attempt.ts') ?? '';
  t.match(types, /export interface SaveAnswerRequest \{/);
  t.notMatch(
    types.replaceAll(/(metadata\??:|interface StudentInfo) \{\s+\[k: string\]: unknown;/g, ''),
    /\[k: string\]/,
    'only metadata and student info are free maps',
  );
  files.set('shared/generated/attempt.ts', `${types} `);
  files.delete('shared/generated/common.ts');
  files.set('docs/not-there.md', '');
  t.strictSame(drift(files), ['docs/not-there.md', 'shared/generated/attempt.ts', 'shared/generated/common.ts']);
});

t.test('the product and the client get the same type of a schema', async (t) => {
  const files = await generatedFiles(loadSchemas());
  for (const file of ['shared/generated/operations.ts', 'clients/typescript/src/generated.ts']) {
    t.match(files.get(file), /\bact: 'replay' \| 'ack' \| 'drop';/, `${file} names the acts on dead letters`);
  }
});

t.test('docs/errors.md lists every code once, with its status, and explains it below a heading', async (t) => {
  const page = (await generatedFiles(loadSchemas())).get('docs/errors.md') ?? '';
  const rows = [...page.matchAll(/^\| \[`(\w+)`\]\(#(\w+)\) \| (\d+) \|/gm)];
  t.same(
    rows.map(([, code, anchor, status]) => `${code} ${anchor} ${status}`),
    Object.entries(ERRORS).map(([code, { status }]) => `${code} ${code.toLowerCase()} ${status}`),
  );
  const headings = [...page.matchAll(/^### `(\w+)`\n\n(\d+): /gm)];
  t.same(
    headings.map(([, code, status]) => `${code} ${status}`),
    Object.entries(ERRORS).map(([code, { status }]) => `${code} ${status}`),
  );
});

t.test('docs/configuration.md and .env.example list every variable', async (t) => {
  for (const name of Object.keys(VARIABLES)) {
    t.match(configurationList(), `\n- **\`${name}\`** (`);
    t.match(envExample(), `${name}=`);
  }
});

t.test('docs/configuration.md names every development token, and docs/errors.md explains every retry', async (t) => {
  const files = await generatedFiles(loadSchemas());
  for (const [name, value] of Object.entries(DEVELOPMENT_DEFAULTS))
    t.match(files.get('docs/configuration.md'), `\`${name}=${value}\``);
  for (const answer of Object.values(RETRY)) t.match(files.get('docs/errors.md'), `\n| ${answer} | `);
});

t.test(
  'the bill of materials lists every production package with its checksum, and no development package',
  async (t) => {
    const { bomFormat, metadata, components } = JSON.parse(billOfMaterials());
    t.equal(bomFormat, 'CycloneDX');
    t.equal(metadata.component.name, 'examhall');
    const names = components.map(({ name }: { name: string }) => name);
    const root = path.resolve(import.meta.dirname, '../..');
    const { dependencies, devDependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
    for (const name of Object.keys(dependencies)) t.ok(names.includes(name), name);
    for (const name of ['bson', 'denque', 'semver'])
      t.ok(names.includes(name), `${name}, a dependency of a dependency`);
    for (const name of Object.keys(devDependencies)) t.notOk(names.includes(name), name);
    for (const { name, hashes } of components) t.match(hashes, [{ alg: 'SHA-512', content: /^[0-9a-f]{128}$/ }], name);
  },
);

const ROOT = path.resolve(import.meta.dirname, '../..');
const PACKAGE = path.join(ROOT, 'clients/typescript');

function manifestAt(folder: string) {
  return JSON.parse(readFileSync(path.join(folder, 'package.json'), 'utf8'));
}

t.test('the package has the version of the server, and pins the parser of events that the server uses', async (t) => {
  const [own, server] = [manifestAt(PACKAGE), manifestAt(ROOT)];
  t.equal(own.version, server.version);
  t.equal(own.license, server.license);
  t.strictSame(own.dependencies, { 'eventsource-parser': server.dependencies['eventsource-parser'] });
  const [license, copy] = [ROOT, PACKAGE].map((folder) => readFileSync(path.join(folder, 'LICENSE'), 'utf8'));
  t.equal(copy, license);
});

t.test('the packed client holds its JavaScript and its types alone, and works for another project', async (t) => {
  const project = t.testdir();
  const installed = path.join(project, 'node_modules/@examhall/client');
  mkdirSync(installed, { recursive: true });
  for (const file of ['package.json', 'README.md', 'LICENSE']) {
    cpSync(path.join(PACKAGE, file), path.join(installed, file));
  }
  await buildClient(path.join(installed, 'dist'));

  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', '--loglevel=error'];
  const packed = spawnSync('npm', args, { cwd: installed, encoding: 'utf8' });
  t.equal(packed.status, 0, packed.stderr);
  const names: string[] = JSON.parse(packed.stdout)[0].files.map((file: { path: string }) => file.path);
  const others = names.filter((name) => !/^dist\/[\w-]+\.(js|d\.ts)$/.test(name));
  t.strictSame(others.sort(), ['LICENSE', 'README.md', 'package.json']);
  t.ok(names.includes('dist/index.js') && names.includes('dist/index.d.ts'));
  t.notOk(names.some((name) => /test|script|misuse/.test(name)));

  const modules = path.join(ROOT, 'node_modules');
  for (const name of ['eventsource-parser', '@types', 'undici-types', 'jsonwebtoken']) {
    symlinkSync(path.join(modules, name), path.join(project, 'node_modules', name));
  }
  const readme = readFileSync(path.join(PACKAGE, 'README.md'), 'utf8');
  const blocks = [...readme.matchAll(/```ts\n(.*?)```/gs)].map(([, code = '']) => code);
  t.ok(blocks.length > 3);
  for (const [index, code] of blocks.entries())
    writeFileSync(path.join(project, `block-${index}.ts`), `${code}\nexport {};\n`);
  for (const name of ['start-exam.ts', 'gateway.ts'])
    cpSync(path.join(ROOT, 'examples', name), path.join(project, name));
  writeFileSync(path.join(project, 'package.json'), JSON.stringify({ type: 'module' }));
  const options = {
    module: 'nodenext',
    target: 'es2022',
    lib: ['es2023'],
    types: ['node'],
    strict: true,
    noEmit: true,
  };
  writeFileSync(path.join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['*.ts'] }));
  await compile(['-p', project], project);

  const use =
    "import('@examhall/client').then(({ createClient }) => createClient({ baseUrl: 'http://x' }).readMe.length)";
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', use], { cwd: project, encoding: 'utf8' });
  t.equal(run.status, 0, run.stderr);
});
