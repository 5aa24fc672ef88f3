"""The roles of the LCC for ``twistd``: ServiceMaker lines only."""

from twisted.application.service import ServiceMaker

lcc = ServiceMaker("LCC, all roles", "lcc.services.all_roles", "All roles of the LCC in one process.", "lcc")
uns = ServiceMaker("LCC UNS", "lcc.services.lean.uns", "LCC update notification server.", "lcc-uns")
qm = ServiceMaker("LCC QM", "lcc.services.lean.qm", "LCC queue manager.", "lcc-qm")
botm = ServiceMaker("LCC BOT-M", "lcc.services.botm", "LCC robot multiplexer.", "lcc-botm")
bot = ServiceMaker("LCC BOT", "lcc.services.bot", "LCC robot.", "lcc-bot")
manager = ServiceMaker("LCC manager", "lcc.services.manager", "LCC manager of jobs.", "lcc-manager")
cu = ServiceMaker("LCC CU", "lcc.services.cu", "LCC content user API.", "lcc-cu")
rs = ServiceMaker("LCC RS", "lcc.services.rs", "LCC registration server.", "lcc-rs")
spider = ServiceMaker("LCC spider", "lcc.services.spider", "LCC spider: follows links.", "lcc-spider")
push = ServiceMaker("LCC push server", "lcc.services.push", "LCC push server: IndexNow.", "lcc-push")
fe_uns = ServiceMaker("LCC FE UNS", "lcc.services.fe_uns", "LCC front end: proxy of UNSes.", "lcc-fe-uns")
fe_rs = ServiceMaker("LCC FE RS", "lcc.services.fe_rs", "LCC front end: registration server.", "lcc-fe-rs")
fe_cu = ServiceMaker("LCC FE CU", "lcc.services.fe_cu", "LCC front end: content user API.", "lcc-fe-cu")
search = ServiceMaker("LCC search", "lcc.services.search", "LCC search server.", "lcc-search")
scheduler = ServiceMaker("LCC scheduler", "lcc.services.lean.scheduler", "LCC scheduler of tasks.", "lcc-scheduler")
web = ServiceMaker("LCC WEB", "lcc.services.web", "LCC web monitor.", "lcc-web")
