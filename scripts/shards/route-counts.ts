import { appendFileSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Reach, Route } from './route-of.ts';

/** One kind of statement that product code sent in a run of the tests. */
export interface CountedRoute extends Route {
  /** The file that sent it, relative to the root. */
  readonly file: string;
  /** How often. A killed process loses its counts, but not its routes. */
  readonly count: number;
}

const ENDING = '.routes.tsv';

/** Counts the routes of this process in a file of the folder. Each is written when it is first seen, because tests kill processes. */
export function openRouteCounter(folder: string): (route: Route, file: string) => void {
  const notes = path.join(folder, `${process.pid}${ENDING}`);
  const counts = new Map<string, number>();
  process.on('exit', () => {
    for (const [line, count] of counts) if (count > 1) appendFileSync(notes, `${line}\t${count - 1}\n`);
  });
  return ({ reach, collection, command, shape }, file) => {
    const line = [reach, collection, command, shape, file].join('\t');
    const count = counts.get(line) ?? 0;
    counts.set(line, count + 1);
    if (count === 0) appendFileSync(notes, `${line}\t1\n`);
  };
}

/** Adds up the counts of all processes. Ignores an incomplete last line, which a killed process may leave. */
export function readRouteCounts(folder: string): CountedRoute[] {
  const counts = new Map<string, number>();
  for (const name of readdirSync(folder).filter((file) => file.endsWith(ENDING))) {
    for (const [, line = '', count] of readFileSync(path.join(folder, name), 'utf8').matchAll(/^(.+)\t(\d+)\n/gm)) {
      counts.set(line, (counts.get(line) ?? 0) + Number(count));
    }
  }
  return [...counts].map(([line, count]) => {
    const [reach = 'every', collection = '', command = '', shape = '', file = ''] = line.split('\t');
    return { reach: reach as Reach, collection, command, shape, file, count };
  });
}
