import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { parse, parseAllDocuments } from 'yaml';
import { findPython, installPythonPackage } from '#scripts/start/services/python-tools.ts';
import { toolsCache } from '#scripts/start/services/tools.ts';

/** An object of Kubernetes or a service of `compose.yaml`, of which each test reads the members that it verifies. */
// biome-ignore lint/suspicious/noExplicitAny: the schemas of Kubernetes verify the members
export type Manifest = any;

const ROOT = path.resolve(import.meta.dirname, '../../..');

export function read(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8');
}

/** Returns the objects of every file below `deploy/kubernetes`, with their file. */
export function manifests(): { file: string; manifest: Manifest }[] {
  const files = globSync('deploy/kubernetes/**/*.yaml', { cwd: ROOT }).sort();
  return files.flatMap((file) =>
    parseAllDocuments(read(file)).map((document) => ({ file, manifest: document.toJS() as Manifest })),
  );
}

export function podOf({ spec }: Manifest): Manifest {
  return spec.template.spec;
}

/** Returns the services of `compose.yaml` that run processes of this project, by name. */
export function composeProcesses(): Record<string, Manifest> {
  const services: [string, Manifest][] = Object.entries(compose().services);
  return Object.fromEntries(services.filter(([, { profiles }]) => profiles?.includes('app') === true));
}

export function composeSecrets(): Record<string, { readonly file: string }> {
  return compose().secrets;
}

function compose(): Manifest {
  return parse(read('compose.yaml'), { merge: true });
}

/** Returns the values of a setting in a unit of systemd, each split into words. */
export function unitSetting(unit: string, name: string): string[] {
  return unit
    .split('\n')
    .filter((line) => line.startsWith(`${name}=`))
    .flatMap((line) => line.slice(name.length + 1).split(/\s+/))
    .filter((word) => word !== '');
}

/** JSON Schemas of the objects of several versions of Kubernetes, as files of a Python package. */
export const KUBERNETES_SCHEMAS = 'kubernetes-validate==1.37.0';

/** Returns the folder of the schemas, which pip downloads and checks on first use. @throws Error if the machine cannot have them */
export async function kubernetesSchemas(env = process.env): Promise<string> {
  const python = findPython({ min: 8, max: 99 }, env.PATH);
  if (python === undefined) throw new Error('no Python 3 on PATH that could download the schemas of Kubernetes');
  const deps = { say: () => undefined, env, cache: toolsCache(env) };
  return `${await installPythonPackage(deps, python, KUBERNETES_SCHEMAS, ['--no-deps'])}/site`;
}
