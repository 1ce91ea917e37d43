import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { onPath, optionalTool } from '#scripts/services/tools.ts';
import { kubernetesSchemas, type Manifest, manifests } from './manifests.ts';

const ROOT = path.resolve(import.meta.dirname, '../..');
/** Versions of Kubernetes whose API the manifests must fit: the first of them, and the newest that the package knows. */
const VERSIONS = ['1.30', '1.37'];

const schemas = await optionalTool('KUBERNETES_SCHEMAS', kubernetesSchemas);

/** Returns a function that returns the faults of an object under the strict schemas of one version of Kubernetes. */
function openSchemas(version: string): (manifest: Manifest) => string[] {
  const folder = path.join(
    'tool' in schemas ? schemas.tool : '',
    `kubernetes_validate/kubernetes-json-schema/v${version}.0-local-strict`,
  );
  const readSchema = (name: string) => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
  const ajv = new Ajv2020({ strict: false, strictNumbers: true, validateFormats: false, allErrors: true });
  ajv.addSchema({ ...readSchema('_definitions.json'), $id: 'https://kubernetes.io/api/_definitions.json' });
  return (manifest) => {
    const [group = '', api = ''] = String(manifest.apiVersion)
      .replace(/\.[^/]*/, '')
      .split('/');
    const file = [manifest.kind.toLowerCase(), group, api].filter((part) => part !== '').join('-');
    if (!existsSync(path.join(folder, `${file}.json`))) return [`no schema ${file}`];
    const { $id, ...schema } = readSchema(`${file}.json`);
    const validate = ajv.getSchema($id) ?? ajv.compile({ $id, ...schema });
    validate(manifest);
    return (validate.errors ?? []).map(({ instancePath, message, params }) => {
      return `${instancePath} ${message} ${JSON.stringify(params)}`;
    });
  };
}

t.test(
  'the manifests fit the schemas of Kubernetes, which know each member',
  { skip: 'missing' in schemas && schemas.missing },
  async (t) => {
    const own = manifests().filter(({ manifest }) => !manifest.apiVersion.startsWith('keda.sh/'));
    t.ok(own.length > 10);
    for (const version of VERSIONS) {
      const faultsOf = openSchemas(version);
      for (const { file, manifest } of own) t.strictSame(faultsOf(manifest), [], `${file} in ${version}`);
      const manifest: Manifest = own.find((one) => one.manifest.kind === 'Deployment')?.manifest;
      const { spec } = manifest;
      t.match(faultsOf({ ...manifest, spec: { ...spec, replica: 2 } }), [
        /must NOT have additional properties.*replica/,
      ]);
      t.match(faultsOf({ ...manifest, spec: { ...spec, minReadySeconds: 'a' } })[0], /minReadySeconds must be integer/);
    }
  },
);

/** Returns what systemd reports about the units, with this folder as their installation. */
function verify(t: { teardown(work: () => void): void }, change: (unit: string) => string): string {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-units-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  cpSync(path.join(ROOT, 'deploy/systemd'), folder, { recursive: true });
  const unit = path.join(folder, 'examhall@.service');
  writeFileSync(unit, change(readFileSync(unit, 'utf8').replaceAll('/opt/examhall', ROOT)));
  const names = ['examhall.target', 'examhall@web.service', 'examhall@grading.service', 'examhall@release.service'];
  const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...names], {
    cwd: folder,
    // The empty end adds the folders of the machine.
    env: { PATH: process.env.PATH, SYSTEMD_UNIT_PATH: `${folder}:` },
    encoding: 'utf8',
  });
  const faults = `${stdout}${stderr}`.split('\n').filter((line) => line.includes('examhall'));
  return [...faults, ...(status === 0 ? [] : [`exit code ${status}`])].join('\n');
}

const noSystemd = onPath(['systemd-analyze'], process.env.PATH) === undefined && 'no systemd-analyze on PATH';
t.test('systemd finds no fault in the units', { skip: noSystemd }, async (t) => {
  t.equal(
    verify(t, (unit) => unit),
    '',
  );
  t.match(
    verify(t, (unit) => unit.replace('ProtectClock', 'ProtectClok')),
    /ProtectClok/,
  );
  t.match(
    verify(t, (unit) => unit.replace('deploy/run', 'deploy/ran')),
    /deploy\/ran/,
  );
});
