import { ActionIcon, Menu, Tooltip } from "@mantine/core";
import { IconLogout, IconMenu2, IconUser } from "@tabler/icons-react";
import { Link, Outlet, useRouter, useRouterState } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";
import { signOut } from "@/services/session";
import { type Texts, useTexts } from "@/texts";
import { Brand } from "./Brand";
import { LiveDot } from "./LiveDot";
import { NotFound } from "./NotFound";
import { LanguageSwitch, SchemeSwitch } from "./preferences";
import { Search } from "./Search";
import classes from "./Shell.module.css";
import { Silence } from "./Silence";
import { useSession } from "./session";
import { useShortcuts } from "./shortcuts";
import { isThere, mayOpen, type Place } from "./visible";

const SECTIONS = ["watch", "steer", "manage"] as const;

/** What stands around every page: where to go, what to look for, whether this is live, who we are. */
export function Shell() {
  const t = useTexts();
  const router = useRouter();
  const session = useSession();
  const [open, setOpen] = useState(false);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const known = useMemo(
    () =>
      Object.values(router.routesById).flatMap((route): Place[] => {
        const page = route.options.staticData?.page;
        return page ? [{ ...page, to: route.fullPath }] : [];
      }),
    [router],
  );
  const places = useMemo(
    () => known.filter((place) => mayOpen(place, session)).sort((a, b) => a.order - b.order),
    [known, session],
  );
  const missing = known.some((place) => place.to === path && !isThere(place, session));
  const here = places.find((place) => (place.to === "/" ? path === "/" : path.startsWith(place.to)));
  const shortcuts = useMemo(
    () =>
      places.map((place) => ({
        keys: `g ${place.letter}`,
        label: place.title(t),
        run: () => void router.navigate({ to: place.to }),
      })),
    [places, router, t],
  );
  useShortcuts(shortcuts);
  useEffect(() => {
    // A page below one that is named here (a task) names itself.
    if (!here || here.to === path) document.title = here ? `${here.title(t)} · Headgate` : "Headgate";
  }, [here, path, t]);

  return (
    <div className={classes.shell} data-open={open || undefined}>
      <a className={classes.skip} href="#page">
        {t.app.skip}
      </a>
      <button type="button" className={classes.veil} aria-label={t.app.close} onClick={() => setOpen(false)} />
      <aside className={classes.side}>
        <div className={classes.brand}>
          <Brand />
        </div>
        <nav aria-label={t.app.pages} className={classes.nav}>
          {SECTIONS.map((section) => (
            <Section
              key={section}
              title={t.app.sections[section]}
              places={places.filter((place) => place.section === section)}
              here={here}
              t={t}
              onGo={() => setOpen(false)}
            />
          ))}
        </nav>
        <div className={classes.foot}>
          <LanguageSwitch />
          <SchemeSwitch />
        </div>
      </aside>
      <header className={classes.top}>
        <ActionIcon className={classes.burger} aria-label={t.app.menu} onClick={() => setOpen(true)}>
          <IconMenu2 size={18} />
        </ActionIcon>
        <Search />
        <div className={classes.gap} />
        <LiveDot />
        <Who />
      </header>
      <Silence />
      <main id="page" className={classes.page} tabIndex={-1}>
        {missing ? <NotFound /> : <Outlet />}
      </main>
    </div>
  );
}

interface SectionProps {
  title: string;
  places: Place[];
  here: Place | undefined;
  t: Texts;
  onGo: () => void;
}

function Section({ title, places, here, t, onGo }: SectionProps) {
  if (places.length === 0) return null;
  return (
    <section>
      <h2 className={classes.section}>{title}</h2>
      <ul>
        {places.map((place) => (
          <li key={place.to}>
            <Link
              to={place.to}
              className={classes.link}
              aria-current={place === here ? "page" : undefined}
              onClick={onGo}
            >
              <place.icon size={16} stroke={1.6} />
              <span>{place.title(t)}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Who() {
  const t = useTexts().app;
  const session = useSession();
  if (session.open) {
    return (
      <Tooltip label={t.openAbout} multiline w={260}>
        <span className={classes.who}>{t.open}</span>
      </Tooltip>
    );
  }
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <button type="button" className={classes.who}>
          <IconUser size={14} aria-hidden /> {session.name}
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          {t.roles[session.role]}
          {session.tenant_id === null ? "" : ` · ${t.tenant(session.tenant_id)}`}
        </Menu.Label>
        <Menu.Item leftSection={<IconLogout size={14} />} onClick={() => void leave()}>
          {t.leave}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

async function leave(): Promise<void> {
  await signOut();
  window.location.assign("/");
}
