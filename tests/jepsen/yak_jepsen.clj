(ns yak-jepsen
  "Jepsen's Kafka workload, with its clients unmodified, against three brokers of YAK. README.md says how to run it."
  (:require [clojure [edn :as edn] [string :as str]]
            [clojure.java [io :as io] [shell :refer [sh]]]
            [jepsen [checker :as checker] [core :as jepsen] [db :as db] [generator :as gen] [nemesis :as nemesis]
                    [os :as os] [tests :as tests]]
            [jepsen.nemesis.combined :as combined]
            [jepsen.redpanda [client :as client] [db :as redpanda-db]]
            [jepsen.redpanda.workload.queue :as queue]
            [jepsen.tests.kafka :as kafka]))

(def yak (or (System/getenv "YAK") "yak"))

(def defaults
  {:name "yak" :metadata "redis" :configs ["min.insync.replicas=2"]
   :faults #{:kill :pause} :targets [:one :all] :interval 10
   :time-limit 180 :final-time-limit 120 :concurrency 9 :rate 100 :max-writes-per-key 256
   :acks "all" :retries 1000 :idempotence true :isolation-level "read_committed" :auto-offset-reset "earliest"
   :enable-auto-commit false :sub-via #{:assign} :txn? false :abort-p 1/20 :ww-deps false :crash-clients? true})

; The running cluster: its directory, the pid of its Redis, and per node ("n1") the port, the command and the pid.
(def cluster (atom nil))

(defn signal! [pid signal] (sh "kill" (str "-" signal) (str pid)))

(defn running? [pid]
  (let [[_ state] (re-find #"(?s)\) (\w) " (:out (sh "cat" (str "/proc/" pid "/stat"))))]
    (and state (not= "Z" state))))

(defn pid-of [node] (get-in @cluster [:brokers node :pid]))

(defn start-cluster! [{:keys [metadata configs]} dir]
  (let [{:keys [exit err]} (apply sh yak "up" "-d" "--brokers" "3" "--leaders" "3" "--metadata" metadata "--port" "0"
                                  "--no-http" "--data-dir" dir (mapcat #(vector "-c" %) configs))
        _ (when-not (zero? exit) (throw (ex-info err {})))
        json (slurp (io/file dir "cluster.json"))]
    (reset! cluster
            {:dir dir
             :redis (second (re-find #"(?s)\"redis\": \{.*?\"pid\": (\d+)" json))
             :brokers (into {} (for [[_ id port pid]
                                     (re-seq #"(?s)\"node_id\": (\d+).*?\"port\": (\d+).*?\"pid\": (\d+)" json)]
                                 (let [words (str/split (slurp (str "/proc/" pid "/cmdline")) #"\x00")]
                                   [(str "n" id) {:pid pid :port port
                                                  :command (assoc words (inc (.indexOf words "--port")) port)}])))})))

(defn stop-cluster! []
  (doseq [{:keys [pid]} (vals (:brokers @cluster))] (signal! pid "KILL"))
  (when-let [redis (:redis @cluster)] (signal! redis "CONT"))
  (sh yak "down" "--data-dir" (:dir @cluster)))

(defn start-broker! [node]
  (if (running? (pid-of node))
    :running
    (let [log (java.lang.ProcessBuilder$Redirect/appendTo (io/file (:dir @cluster) "logs" (str node ".log")))
          command (get-in @cluster [:brokers node :command])
          process (.start (doto (ProcessBuilder. ^java.util.List command)
                            (.redirectErrorStream true)
                            (.redirectOutput log)))]
      (swap! cluster assoc-in [:brokers node :pid] (.pid process))
      :started)))

(defrecord Yak []
  db/DB
  (setup! [_ _ _])
  (teardown! [_ _ _])
  db/Kill
  (start! [_ _ node] (start-broker! node))
  (kill! [_ _ node] (signal! (pid-of node) "KILL") :killed)
  db/Pause
  (pause! [_ _ node] (signal! (pid-of node) "STOP") :paused)
  (resume! [_ _ node] (signal! (pid-of node) "CONT") :resumed)
  redpanda-db/DB
  (node-id [_ _ node] node)
  (topic-partition-state [_ _ _] {}))

; Faults that Jepsen's packages do not have: a controlled shutdown of one broker, and a Redis that does not answer.
(defrecord OtherFaults []
  nemesis/Reflection
  (fs [_] #{:restart :pause-redis :resume-redis})
  nemesis/Nemesis
  (setup! [this _] this)
  (teardown! [_ _])
  (invoke! [_ test op]
    (assoc op :value (case (:f op)
                       :restart (let [node (rand-nth (:nodes test))]
                                  (signal! (pid-of node) "TERM")
                                  (loop [tries 100]
                                    (when (and (pos? tries) (running? (pid-of node)))
                                      (Thread/sleep 100)
                                      (recur (dec tries))))
                                  [node (start-broker! node)])
                       :pause-redis (do (signal! (:redis @cluster) "STOP") :paused)
                       :resume-redis (do (signal! (:redis @cluster) "CONT") :resumed)))))

(defn other-faults [{:keys [faults interval]}]
  (let [of (fn [f] (repeat {:type :info :f f}))
        generators (cond-> []
                     (:restart faults) (conj (of :restart))
                     (:redis faults) (conj (gen/flip-flop (of :pause-redis) (of :resume-redis))))]
    {:nemesis (->OtherFaults)
     :generator (when (seq generators) (gen/stagger interval (gen/mix generators)))
     :final-generator (when (:redis faults) {:type :info :f :resume-redis})
     :perf #{}}))

(defn yak-test [{:keys [faults targets interval rate time-limit final-time-limit] :as opts}]
  (let [{:keys [checker generator final-generator] :as workload} (queue/workload opts)
        db (->Yak)
        faults (combined/compose-packages
                 [(combined/db-package {:db db :faults faults :interval interval
                                        :kill {:targets targets} :pause {:targets targets}})
                  (other-faults opts)])]
    (merge tests/noop-test opts
           {:nodes ["n1" "n2" "n3"] :ssh {:dummy? true} :os os/noop :db db
            :client (:client workload)
            :nemesis (:nemesis faults)
            :generator (gen/phases
                         (->> generator
                              (gen/stagger (/ rate))
                              (gen/nemesis (:generator faults))
                              (gen/time-limit time-limit))
                         (gen/nemesis (:final-generator faults))
                         (gen/sleep 10)
                         (gen/time-limit final-time-limit (gen/clients final-generator)))
            :checker (checker/compose {:stats (kafka/stats-checker)
                                       :exceptions (checker/unhandled-exceptions)
                                       :workload checker})
            :logging {:overrides {"org.apache.kafka" :off}}})))

(defn -main
  "Runs a test. The arguments are options that differ from the defaults, as EDN: ':txn? true :metadata \"raft\"'."
  [& words]
  (let [opts (merge defaults (edn/read-string (str "{" (str/join " " words) "}")))
        address #(str "127.0.0.1:" (get-in @cluster [:brokers % :port]))]
    (doseq [config [#'client/consumer-config #'client/producer-config #'client/admin-config]]
      (alter-var-root config (fn [f] (fn [node & more] (assoc (apply f node more) "bootstrap.servers" (address node))))))
    (start-cluster! opts (str (.toAbsolutePath (java.nio.file.Files/createTempDirectory
                                                 "yak-jepsen-" (make-array java.nio.file.attribute.FileAttribute 0)))))
    (let [valid? (try (get-in (jepsen/run! (yak-test opts)) [:results :valid?])
                      (finally (stop-cluster!)))]
      (shutdown-agents)
      (System/exit (if (true? valid?) 0 4)))))
