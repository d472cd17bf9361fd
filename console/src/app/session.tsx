import { Loader } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, lazy, type ReactNode, Suspense, useContext, useEffect } from "react";
import { ProblemNote } from "@/parts/ProblemNote";
import { onSignedOut } from "@/services/api";
import { type Session, sessionQuery } from "@/services/session";
import { LiveProvider } from "./live";
import classes from "./session.module.css";

const Login = lazy(() => import("./Login").then((module) => ({ default: module.Login })));
const Context = createContext<Session | null>(null);

/** Shows the sign-in page until the server knows the user. */
export function SessionGate({ children }: { children: ReactNode }) {
  const client = useQueryClient();
  const session = useQuery(sessionQuery);

  useEffect(
    () =>
      onSignedOut(() => {
        client.setQueryData(sessionQuery.queryKey, null);
        client.removeQueries({ predicate: (query) => query.queryKey[0] !== sessionQuery.queryKey[0] });
      }),
    [client],
  );

  if (session.data === null) {
    return (
      <Suspense>
        <Login />
      </Suspense>
    );
  }
  if (session.data) {
    return (
      <Context value={session.data}>
        <LiveProvider>{children}</LiveProvider>
      </Context>
    );
  }
  return (
    <div className={classes.middle}>
      {session.error ? <ProblemNote error={session.error} retry={() => session.refetch()} /> : <Loader type="dots" />}
    </div>
  );
}

/** Who we are to the server. */
export function useSession(): Session {
  const session = useContext(Context);
  if (!session) throw new Error("no SessionGate");
  return session;
}
