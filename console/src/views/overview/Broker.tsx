import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Ago } from "@/parts/Ago";
import { amount, duration } from "@/parts/formats";
import { Name } from "@/parts/Name";
import { Panel } from "@/parts/Panel";
import { ProblemNote } from "@/parts/ProblemNote";
import { Rows } from "@/parts/Rows";
import { type Broker as BrokerReport, brokerQuery } from "@/services/broker";
import type { Tone } from "@/services/states";
import { useSpoken, useTexts } from "@/texts";
import classes from "./Broker.module.css";

const MOST_QUEUES = 8;
const SLOW_RELAY_SECONDS = 60;

/** Whether tasks go through RabbitMQ, and how that is going; nothing where there is no broker. */
export function Broker() {
  const t = useTexts().overview.broker;
  const broker = useQuery(brokerQuery);
  const report = broker.data;
  if (!broker.error && !report?.configured) return null;
  const away = report?.dispatcher === null;
  return (
    <Panel
      place="broker"
      title={t.title}
      flush
      actions={
        report ? (
          <span className={classes.state} data-tone={away ? "alarm" : "good"}>
            {away ? t.away : t.connected(report.address ?? "")}
          </span>
        ) : null
      }
    >
      {broker.error ? <ProblemNote error={broker.error} retry={() => broker.refetch()} /> : null}
      {away ? <p className={classes.about}>{t.awayAbout(report?.address ?? "")}</p> : null}
      {report ? <Figures report={report} /> : null}
      {report?.tasks ? <Queues queues={report.queues} /> : null}
    </Panel>
  );
}

function Figures({ report }: { report: BrokerReport }) {
  const { t, language } = useSpoken();
  const words = t.overview.broker;
  const number = (count: number | undefined) => amount(count ?? 0, language);
  const warned = (count: number | undefined): Tone | undefined => (count ? "warn" : undefined);
  const { dispatcher, messages, deliveries, relay_lag_seconds: lag, dead_letters: dead } = report;
  return (
    <dl className={classes.figures}>
      <Figure name={words.dispatcher} about={words.dispatcherAbout} wide>
        {dispatcher ? (
          <>
            {dispatcher.process}{" "}
            <small>
              <Ago at={dispatcher.since} />
            </small>
          </>
        ) : (
          "–"
        )}
      </Figure>
      <Figure name={words.consumers} about={words.consumersAbout} tone={warned(report.consumers ? 0 : 1)}>
        {number(report.consumers)}
      </Figure>
      <Figure name={words.queues} about={words.queuesAbout}>
        {number(report.queues.length)}
      </Figure>
      <Figure name={words.tasks} about={words.tasksAbout}>
        {number(report.tasks)}
      </Figure>
      <Figure name={words.unconfirmed} about={words.unconfirmedAbout} tone={warned(messages?.unconfirmed)}>
        {number(messages?.unconfirmed)}
      </Figure>
      <Figure name={words.resent} about={words.resentAbout} tone={warned(messages?.resent)}>
        {number(messages?.resent)}
      </Figure>
      <Figure name={words.redelivered} about={words.redeliveredAbout}>
        {number(deliveries?.redelivered)}
      </Figure>
      <Figure name={words.stale} about={words.staleAbout}>
        {number(deliveries?.stale)}
      </Figure>
      <Figure name={words.lag} about={words.lagAbout} tone={(lag ?? 0) > SLOW_RELAY_SECONDS ? "alarm" : undefined}>
        {duration(lag)}
      </Figure>
      <Figure name={words.dead} about={words.deadAbout} tone={warned(dead ?? 0)}>
        {dead === null ? "–" : number(dead)}
      </Figure>
    </dl>
  );
}

interface FigureProps {
  name: string;
  about: string;
  wide?: boolean;
  tone?: Tone | undefined;
  children: ReactNode;
}

function Figure({ name, about, wide, tone, children }: FigureProps) {
  return (
    <div title={about} data-wide={wide} data-tone={tone}>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Those that hold something, the fullest first. */
function Queues({ queues }: { queues: BrokerReport["queues"] }) {
  const t = useTexts().overview.broker;
  const full = queues.filter((queue) => queue.tasks > 0).sort((one, other) => other.tasks - one.tasks);
  const shown = full.slice(0, MOST_QUEUES);
  const left = full.length - shown.length;
  return (
    <Rows
      label={t.queues}
      heads={[
        { text: t.queue, wide: true },
        { text: t.tasks, number: true },
        { text: t.oldest, number: true },
      ]}
    >
      {shown.map((queue) => (
        <tr key={queue.name}>
          <th scope="row" data-long>
            <Name of={queue.name} />
          </th>
          <td data-number>{queue.tasks}</td>
          <td data-number>
            <Ago at={queue.since} />
          </td>
        </tr>
      ))}
      {left > 0 ? (
        <tr>
          <td colSpan={3} data-muted>
            {t.more(left)}
          </td>
        </tr>
      ) : null}
    </Rows>
  );
}
