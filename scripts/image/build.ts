import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { contextFiles } from './context.ts';
import { assignments, execForm, readDockerfile } from './dockerfile.ts';

const run = promisify(execFile);

/** Settings of the last stage of a Dockerfile. Paths of the image are below the folder in which it was built. */
export interface BuiltImage {
  /** Folder in which its processes run. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly health: readonly string[];
}

/**
 * Carries out the Dockerfile of `root` in the empty folder `place`, as if that were the file system of the image. The files and the
 * commands are the same, with the Node and the npm of `env`. Users and owners are those of this process.
 * @throws Error if a command fails, or for an instruction that it does not know
 */
export async function buildIn(root: string, place: string, env: NodeJS.ProcessEnv): Promise<BuiltImage> {
  const stages = readDockerfile(readFileSync(path.join(root, 'Dockerfile'), 'utf8'));
  const files = contextFiles(root);
  const image = {
    folder: '/',
    env: {} as Record<string, string>,
    user: '',
    entrypoint: [''],
    command: [''],
    health: [''],
  };
  for (const stage of stages) {
    let folder = '/';
    const variables: Record<string, string> = {};
    for (const { name, flags, text } of stage.instructions) {
      const words = text.split(/\s+/);
      if (name === 'WORKDIR') {
        folder = path.resolve(folder, text);
        mkdirSync(path.join(place, folder), { recursive: true });
      } else if (name === 'ENV') Object.assign(variables, assignments(text));
      else if (name === 'COPY') {
        const to = path.join(place, path.resolve(folder, words.at(-1) ?? ''));
        if (flags.from === undefined) copy(root, chosen(files, words.slice(0, -1)), to);
        else move(path.join(place, words[0] ?? ''), to);
      } else if (name === 'RUN') {
        await run('sh', ['-ec', text], { cwd: path.join(place, folder), env: { ...env, ...variables } });
      } else if (name === 'USER') image.user = text;
      else if (name === 'ENTRYPOINT') image.entrypoint = execForm(text);
      else if (name === 'CMD') image.command = execForm(text);
      else if (name === 'HEALTHCHECK') image.health = execForm(text.slice(text.indexOf('[')));
      else if (!['EXPOSE', 'LABEL'].includes(name)) throw new Error(`${name} is not known here`);
    }
    Object.assign(image, { folder: path.join(place, folder), env: variables });
  }
  const [program = '', ...rest] = image.entrypoint;
  return { ...image, entrypoint: [path.join(place, program), ...rest] };
}

/** Returns the files that the sources of a COPY name. @throws Error for a source without files */
function chosen(files: readonly string[], sources: readonly string[]): string[] {
  return sources.flatMap((source) => {
    const found = files.filter((file) => source === '.' || file === source || file.startsWith(`${source}/`));
    if (found.length === 0) throw new Error(`COPY ${source}: .dockerignore leaves no such file`);
    return found;
  });
}

function copy(root: string, files: readonly string[], to: string): void {
  for (const file of files) cpSync(path.join(root, file), path.join(to, file));
}

/** Moves what another stage has built, because a copy would cost the time of writing it again. */
function move(from: string, to: string): void {
  mkdirSync(to, { recursive: true });
  for (const name of readdirSync(from)) renameSync(path.join(from, name), path.join(to, name));
}

/** Returns the bytes of the files below a folder. */
export function bytesBelow(folder: string): number {
  const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
  const files = entries.filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(path.join(parentPath, name)).size, 0);
}
