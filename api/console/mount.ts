import type { Route } from '#api/route.ts';
import { openCluster } from './cluster.ts';
import { exams } from './exams.ts';
import { overview } from './overview.ts';
import { consoleRoutes } from './routes.ts';
import type { ConsoleDeps } from './screen.ts';

/** Returns the routes of the console: sign-in, files, and its screens in the order of the navigation. */
export function mountConsole(deps: ConsoleDeps): Route[] {
  const readCluster = openCluster(deps);
  return consoleRoutes(deps, [overview(readCluster), exams(deps)]);
}
