import type { Route } from '#api/route.ts';
import { audit } from './audit.ts';
import { board } from './board.ts';
import { bulkAct, confirmAct } from './dead-letter-acts.ts';
import { deadLetters, letterList, oneLetter } from './dead-letters.ts';
import { exams } from './exams.ts';
import { overview } from './overview.ts';
import { queues } from './queues.ts';
import { consoleRoutes } from './routes.ts';
import type { ConsoleDeps } from './screen.ts';
import { traceScreen } from './trace.ts';

/** Returns the routes of the console: sign-in, files, and its screens in the order of the navigation. */
export function mountConsole(deps: ConsoleDeps): Route[] {
  return consoleRoutes(deps, [
    overview(deps),
    queues(deps),
    traceScreen(deps),
    exams(deps),
    board(deps),
    deadLetters(deps),
    letterList(deps),
    oneLetter(deps),
    confirmAct(deps),
    bulkAct(deps),
    audit(deps),
  ]);
}
