import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { carillonError } from '../core/errors.ts';
import { PROBLEM_TYPE, problemOf } from './problem.ts';

/**
 * Answers bytes that are no HTTP request, or one whose header is too large: a problem like any other, then the connection is
 * closed, since nobody knows where the next request would begin.
 */
export function answerBrokenRequest(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const known =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? carillonError('request-malformed', 'the header of the request is too large', { field: 'header' })
      : carillonError('request-malformed', 'this is not a well-formed HTTP request', { field: 'request' });
  const body = JSON.stringify(problemOf(known));
  socket.end(
    `HTTP/1.1 400 Bad Request\r\nContent-Type: ${PROBLEM_TYPE}\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
  );
}

/** Answers a request that expects something other than `100-continue`, before its body is sent. */
export function answerExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const problem = problemOf(carillonError('request-malformed', 'Expect takes 100-continue only', { field: 'expect' }));
  response.writeHead(problem.status, { 'content-type': PROBLEM_TYPE, connection: 'close' });
  response.end(JSON.stringify(problem));
}
